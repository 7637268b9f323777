"""Up to where a log may be compacted: a marker that may be lost with the power decides nothing."""

from random import Random

import pytest

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.removal import cleanable_end_of, request_sealed_sync, truncate_to
from kafkad.core.log.settings import LogConfig
from tests.core.log.batches import NOW, load
from tests.core.log.fake_store import FakeStore
from tests.core.log.test_transactions import commit_all, end, put

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))


def sync(log: PartitionLog) -> None:
    log.flush(log.take_flush())


def ended_in_the_next_segment(store: FakeStore) -> PartitionLog:
    """Offsets 0 and 1 are of a transaction; its marker, at 2, begins the segment after, which is not synced."""
    log = load(store, config=COMPACTED)
    put(log, 0, 2)
    log.roll(log.log_end_offset, NOW)
    sync(log)
    end(log)
    log.advance_high_watermark(log.log_end_offset)
    return log


def reload(store: FakeStore, log: PartitionLog) -> PartitionLog:
    """By the next process."""
    loaded = load(store, config=COMPACTED, was_clean=False, recovery_point=log.recovery_point)
    loaded.advance_high_watermark(loaded.log_end_offset)
    return loaded


def test_a_transaction_whose_marker_is_not_on_disk_is_not_compacted() -> None:
    log = ended_in_the_next_segment(FakeStore())
    assert (log.recovery_point, log.last_stable.offset) == (2, 3)
    assert cleanable_end_of(log) == 0


def test_the_marker_is_synced_for_whoever_wants_to_compact() -> None:
    log = ended_in_the_next_segment(FakeStore())
    assert request_sealed_sync(log, NOW)
    sync(log)
    assert cleanable_end_of(log) == log.recovery_point == 3
    assert not request_sealed_sync(log, NOW)


def test_transactions_within_a_segment_need_no_sync_of_the_active_one() -> None:
    log = load(FakeStore(), config=COMPACTED)
    put(log, 0, 2)
    end(log)
    log.roll(log.log_end_offset, NOW)
    sync(log)
    put(log, 2)
    end(log)
    log.advance_high_watermark(log.log_end_offset)
    assert cleanable_end_of(log) == 3
    assert not request_sealed_sync(log, NOW)


def test_the_next_process_does_not_take_the_marker_for_synced() -> None:
    store = FakeStore()
    log = ended_in_the_next_segment(store)
    store.kill()
    loaded = reload(store, log)
    assert loaded.last_stable.offset == 3
    assert cleanable_end_of(loaded) == 0
    assert request_sealed_sync(loaded, NOW)
    sync(loaded)
    assert cleanable_end_of(loaded) == 3


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_truncation_behind_the_marker_does_not_sync_it(is_lost: bool) -> None:
    log = ended_in_the_next_segment(FakeStore())
    commit_all(log)
    log.roll(log.log_end_offset, NOW)
    put(log, 2)
    truncate_to(log, 2 if is_lost else log.log_end_offset - 1, NOW)
    assert cleanable_end_of(log) == 0


def test_after_a_loss_of_power_what_was_cleanable_is_decided_as_before() -> None:
    for seed in range(20):
        store = FakeStore()
        log = ended_in_the_next_segment(store)
        was_cleanable = cleanable_end_of(log)
        store.lose_power(Random(seed))
        assert reload(store, log).last_stable.offset >= was_cleanable
