"""Appending, rolling, flushing and closing, on a store in memory."""

import dataclasses
from random import Random

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.effects import FlushLog
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.layout import LEADER_EPOCHS
from kafkad.core.log.segments.removal import delete_segments, truncate_to
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.core.types import LogPosition
from tests.core.log.batches import NOW, SMALL, append, batch, load
from tests.core.log.fake_store import FakeStore
from tests.core.log.log_content import batch_offsets, check_indexes


def test_offsets_are_assigned_one_after_the_other() -> None:
    log = load(FakeStore())
    first = append(log, batch(3))
    second = append(log, batch(2))
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 4)
    assert log.log_end_offset == 5


def test_the_batch_is_patched_in_the_callers_memory_and_written_from_there() -> None:
    store = FakeStore()
    log = load(store)
    append(log, batch(2))
    records = batch(1)
    append(log, records, epoch=7)
    written = store.read("00000000000000000000.log")
    assert written.endswith(bytes(records))
    assert int.from_bytes(records[:8], "big") == 2
    assert int.from_bytes(records[12:16], "big") == 7


def test_a_refused_batch_changes_nothing() -> None:
    store = FakeStore()
    log = load(store)
    append(log, batch(1))
    before = (log.log_end, store.changes)
    broken = batch(1)
    broken[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        append(log, broken)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end, store.changes) == before


def test_a_full_disk_leaves_the_log_as_it_was_and_the_next_append_succeeds_when_there_is_room() -> None:
    store = FakeStore()
    log = load(store)
    append(log, batch(1, producer_id=5, sequence=0))
    end = log.log_end
    store.free_bytes = 10
    with pytest.raises(NoSpaceLeft):
        append(log, batch(1, producer_id=5, sequence=1))
    assert log.log_end == end
    store.free_bytes = None
    assert append(log, batch(1, producer_id=5, sequence=1)).base_offset == 1


def test_a_disk_too_full_for_index_entries_takes_the_records_and_the_entries_follow_later() -> None:
    store = FakeStore()
    log = load(store, config=LogConfig(index_interval_bytes=0))
    store.full_for = "index"
    for _ in range(40):
        append(log, batch(4))
    assert log.log_end_offset == 160
    store.full_for = None
    log.close()
    assert check_indexes(store) == 39 + 1


def test_a_batch_that_is_in_the_log_is_not_refused_because_its_index_can_not_be_flushed() -> None:
    store = FakeStore()
    log = load(store, config=LogConfig(index_interval_bytes=0, flush_messages=4))
    append(log, batch(1))
    store.full_for = "index"
    assert [append(log, batch(4)).base_offset for _ in range(3)] == [1, 5, 9]
    store.full_for = None
    log.close()
    assert check_indexes(store) == 3 + 1


def test_a_failed_disk_is_reported_as_such() -> None:
    store = FakeStore()
    log = load(store)
    append(log, batch(1))
    store.fail_on = "write"
    with pytest.raises(StorageFailed):
        append(log, batch(1))
    assert log.log_end_offset == 1


def test_a_repeated_batch_is_answered_with_its_first_offsets() -> None:
    log = load(FakeStore())
    append(log, batch(2))
    original = append(log, batch(3, producer_id=9, sequence=0))
    append(log, batch(1))
    again = append(log, batch(3, producer_id=9, sequence=0))
    assert again.duplicate
    assert (again.base_offset, again.last_offset) == (original.base_offset, original.last_offset)
    assert log.log_end_offset == 6


def test_a_gap_in_the_sequence_is_refused() -> None:
    log = load(FakeStore())
    append(log, batch(1, producer_id=9, sequence=0))
    with pytest.raises(KafkaError) as refused:
        append(log, batch(1, producer_id=9, sequence=2))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_log_append_time_is_stamped_and_answered() -> None:
    log = load(FakeStore(), config=dataclasses.replace(SMALL, message_timestamp_type="LogAppendTime"))
    assert append(log, batch(1), now_ms=NOW + 5).log_append_time_ms == NOW + 5
    assert append(load(FakeStore()), batch(1)).log_append_time_ms == -1


def test_a_segment_is_rolled_when_the_next_batch_would_make_it_too_large() -> None:
    store = FakeStore()
    log = load(store)
    size = len(batch(1))
    for _ in range(2000 // size):
        append(log, batch(1))
    assert log.segments.base_offsets == [0]
    append(log, batch(1))
    assert log.segments.base_offsets == [0, 2000 // size]


def test_a_segment_is_rolled_when_its_first_records_are_older_than_segment_ms() -> None:
    log = load(FakeStore(), config=LogConfig(segment_ms=1000))
    append(log, batch(1, timestamp=NOW))
    append(log, batch(1, timestamp=NOW + 1000))
    assert len(log.segments) == 1
    append(log, batch(1, timestamp=NOW + 1001))
    assert log.segments.base_offsets == [0, 2]


@pytest.mark.parametrize(("policy", "rolls"), [("compact", True), ("delete", False)])
def test_a_compacted_log_rolls_in_time_for_max_compaction_lag(policy: str, rolls: bool) -> None:
    """As in Apache Kafka: what is in the active segment is not compacted."""
    config = LogConfig(segment_ms=100_000, max_compaction_lag_ms=1000, cleanup_policy=frozenset({policy}))
    log = load(FakeStore(), config=config)
    append(log, batch(1, timestamp=NOW))
    append(log, batch(1, timestamp=NOW + 1000))
    assert len(log.segments) == 1
    append(log, batch(1, timestamp=NOW + 1001))
    assert log.segments.base_offsets == ([0, 2] if rolls else [0])


def test_jitter_makes_a_segment_roll_earlier() -> None:
    log = load(FakeStore(), config=LogConfig(segment_ms=1000, segment_jitter_ms=800))
    log.segments.active.roll_jitter = 0.5
    append(log, batch(1, timestamp=NOW))
    append(log, batch(1, timestamp=NOW + 601))
    assert log.segments.base_offsets == [0, 1]


def test_jitter_that_is_set_later_holds_for_the_segment_that_is_there() -> None:
    log = load(FakeStore(), config=LogConfig(segment_ms=1000))
    log.segments.active.roll_jitter = 0.5
    append(log, batch(1, timestamp=NOW))
    log.update_config(LogConfig(segment_ms=1000, segment_jitter_ms=800))
    append(log, batch(1, timestamp=NOW + 601))
    assert log.segments.base_offsets == [0, 1]


def test_jitter_is_no_more_than_the_age_as_in_apache_kafka() -> None:
    log = load(FakeStore(), config=LogConfig(segment_ms=1000, segment_jitter_ms=2**63 - 1))
    log.segments.active.roll_jitter = 0.5
    append(log, batch(1, timestamp=NOW))
    append(log, batch(1, timestamp=NOW + 500))
    assert len(log.segments) == 1
    append(log, batch(1, timestamp=NOW + 501))
    assert log.segments.base_offsets == [0, 2]


def test_segment_ms_counts_from_the_first_batch_also_after_a_restart() -> None:
    store = FakeStore()
    config = LogConfig(segment_ms=1000)
    log = load(store, config=config)
    append(log, batch(1, timestamp=NOW))
    log.close()
    again = load(store, config=config, was_clean=True, recovery_point=1, now_ms=NOW + 100_000)
    append(again, batch(1, timestamp=NOW + 1001), now_ms=NOW + 100_000)
    assert again.segments.base_offsets == [0, 1]


def test_a_segment_is_rolled_when_its_index_is_full() -> None:
    log = load(FakeStore(), config=LogConfig(segment_index_bytes=12 * 5, index_interval_bytes=0))
    for number in range(8):
        append(log, batch(1, timestamp=NOW + number))
    assert len(log.segments) > 1
    assert check_indexes(log.store) > 0


def test_a_segment_whose_index_is_full_is_rolled_after_a_restart_too() -> None:
    store, config = FakeStore(), LogConfig(segment_index_bytes=24, index_interval_bytes=0)
    log = load(store, config=config)
    for number in range(2):
        append(log, batch(1, timestamp=NOW + number))
    assert log.segments.active.is_index_full
    log.close()
    again = load(store, config=config, was_clean=True, recovery_point=2)
    append(again, batch(1, timestamp=NOW + 2))
    assert again.segments.base_offsets == [0, 2]
    assert store.sizes()["00000000000000000000.index"] <= 24


def test_a_segment_is_rolled_before_a_relative_offset_overflows() -> None:
    log = load(FakeStore(), config=LogConfig())
    append(log, batch(1))
    far = batch(1, base_offset=2**31 + 5, leader_epoch=0)
    append_as_follower(log, far, leader_epoch=0, now_ms=NOW)
    assert log.segments.base_offsets == [0, 2**31 + 5]


def test_rolling_completes_the_indexes_writes_a_snapshot_and_asks_for_a_flush() -> None:
    store = FakeStore()
    log = load(store)
    append(log, batch(1, producer_id=3, sequence=0))
    generation = log.generation
    log.roll(log.log_end_offset, NOW)
    effect = log.take_flush()
    assert effect is not None and effect.up_to == 1
    assert log.generation > generation
    assert "00000000000000000001.snapshot" in store.sizes()
    assert store.sizes()["00000000000000000000.timeindex"] == 12
    assert log.take_flush() is None


def test_rolling_an_empty_active_segment_does_nothing() -> None:
    log = load(FakeStore())
    assert log.roll(0, NOW) is log.segments.active
    assert len(log.segments) == 1


def test_the_recovery_point_moves_when_the_flush_is_done() -> None:
    store = FakeStore()
    log = load(store)
    append(log, batch(4))
    log.request_flush(NOW)
    effect = flush_of(log)
    assert log.recovery_point == 0
    effect.perform()
    log.flushed(effect)
    assert log.recovery_point == 4
    assert store.files["00000000000000000000.log"].durable == store.read("00000000000000000000.log")


def flush_of(log: PartitionLog) -> FlushLog:
    assert log.is_flush_requested
    effect = log.take_flush()
    assert effect is not None
    return effect


def test_a_batch_with_which_flush_messages_is_reached_is_complete_when_it_is_on_disk() -> None:
    log = load(FakeStore(), config=dataclasses.replace(SMALL, flush_messages=3))
    append(log, batch(2))
    assert (log.take_flush(), log.completed_end) == (None, 2)
    append(log, batch(1))
    assert log.completed_end == 2
    effect = flush_of(log)
    assert effect.up_to == 3
    log.flush(effect)
    assert log.completed_end == 3


def test_one_flush_covers_everything_that_came_before_it() -> None:
    log = load(FakeStore(), config=dataclasses.replace(SMALL, flush_messages=1))
    append(log, batch(2))
    first = flush_of(log)
    for _ in range(30):
        append(log, batch(1))
    assert len(log.segments) > 1
    log.flush(first)
    assert log.completed_end == 2
    second = flush_of(log)
    assert (second.up_to, log.take_flush()) == (32, None)
    log.flush(second)
    assert (log.completed_end, log.recovery_point) == (32, 32)


def test_what_waits_for_the_disk_counts_as_flushed() -> None:
    """Apache Kafka takes nothing more while it flushes."""
    log = load(FakeStore(), config=dataclasses.replace(SMALL, flush_messages=3))
    append(log, batch(3))
    first = flush_of(log)
    append(log, batch(2))
    assert (log.is_flush_requested, log.completed_end) == (False, 0)
    append(log, batch(1))
    assert log.is_flush_requested
    log.flush(first)
    assert log.completed_end == 5
    log.flush(flush_of(log))
    assert log.completed_end == 6


@pytest.mark.parametrize("seed", range(20))
def test_what_flush_messages_has_completed_survives_the_loss_of_power(seed: int) -> None:
    random = Random(seed)
    store = FakeStore()
    flush_messages = random.choice((1, 3, 10))
    log = load(store, config=dataclasses.replace(SMALL, flush_messages=flush_messages))
    for _ in range(60):
        append(log, batch(random.randint(1, 4)))
        if log.is_flush_requested and random.random() < 0.5:
            log.flush(flush_of(log))
        assert log.completed_end - log.recovery_point < flush_messages
    store.lose_power(random)
    assert load(store, recovery_point=log.recovery_point).log_end_offset >= log.recovery_point


def test_a_log_that_is_cut_waits_for_nothing_that_is_gone() -> None:
    log = load(FakeStore(), config=dataclasses.replace(SMALL, flush_messages=1))
    for _ in range(5):
        append(log, batch(1))
    effect = flush_of(log)
    truncate_to(log, 3, NOW)
    log.flush(effect)
    assert (log.completed_end, log.recovery_point) == (3, 0)


def test_flush_ms_is_due_only_with_something_unsynced() -> None:
    log = load(FakeStore(), config=dataclasses.replace(SMALL, flush_ms=100))
    assert not log.flush_is_due(NOW + 1000)
    append(log, batch(1))
    assert not log.flush_is_due(NOW + 99)
    assert log.flush_is_due(NOW + 100)
    log.flush()
    assert not log.flush_is_due(NOW + 1000)


def test_the_high_watermark_names_the_place_of_its_batch() -> None:
    log = load(FakeStore())
    append(log, batch(3))
    end_of_first = log.log_end
    append(log, batch(2))
    assert log.advance_high_watermark(3) == end_of_first
    assert log.advance_high_watermark(1).offset == 3
    assert log.advance_high_watermark(5) == log.log_end


def test_a_high_watermark_far_behind_is_found_through_the_index() -> None:
    log = load(FakeStore())
    ends = [LogPosition(0, 0, 0)]
    for _ in range(100):
        append(log, batch(2))
        ends.append(log.log_end)
    middle = log.advance_high_watermark(20)
    assert middle == ends[10]


def test_the_first_epoch_is_on_file_before_its_first_batch() -> None:
    store = FakeStore()
    log = load(store)
    assert LEADER_EPOCHS not in store.sizes()
    append(log, batch(1), epoch=4)
    append(log, batch(1), epoch=6)
    assert store.read(LEADER_EPOCHS) == b"0\n2\n4 0\n6 1\n"
    assert log.epochs.end_offset_for(4, log.log_end_offset) == (4, 1)
    assert log.epochs.end_offset_for(6, log.log_end_offset) == (6, 2)


def test_followers_take_offsets_and_epochs_as_they_are() -> None:
    log = load(FakeStore())
    records = b"".join(
        bytes(batch(2, base_offset=offset, leader_epoch=epoch)) for offset, epoch in ((10, 1), (12, 1), (20, 3))
    )
    info = append_as_follower(log, memoryview(records), leader_epoch=3, now_ms=NOW)
    assert (info.base_offset, info.last_offset) == (10, 21)
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 10), (3, 20)]
    assert batch_offsets(log.store, 100) == [(10, 11), (12, 13), (20, 21)]


def test_index_entries_point_at_batches() -> None:
    log = load(FakeStore())
    for number in range(200):
        append(log, batch(1 + number % 3, timestamp=NOW + (number * 37) % 100))
    log.close()
    assert check_indexes(log.store) > 40


def test_a_closed_log_opens_with_all_that_it_held() -> None:
    store = FakeStore()
    log = load(store)
    for number in range(30):
        append(log, batch(2, producer_id=1, sequence=2 * number), epoch=number // 10)
    end, epochs = log.log_end, log.epochs.entries
    log.close()
    assert log.recovery_point == 60
    again = load(store, was_clean=True, recovery_point=60)
    assert again.log_end == end
    assert again.epochs.entries == epochs
    assert append(again, batch(2, producer_id=1, sequence=58)).duplicate
    assert append(again, batch(2, producer_id=1, sequence=60)).base_offset == 60


def test_a_closed_log_holds_no_open_file_and_has_trimmed_indexes() -> None:
    store = FakeStore()
    log = load(store, config=LogConfig())
    for _ in range(5):
        append(log, batch(100))
    log.close()
    sizes = store.sizes()
    assert 0 < sizes["00000000000000000000.index"] <= 40
    assert 0 < sizes["00000000000000000000.timeindex"] <= 72


def test_closing_a_log_that_nobody_wrote_to_touches_nothing() -> None:
    store = FakeStore()
    load(store)
    again = load(store, was_clean=True)
    changes = store.changes
    again.close()
    assert store.changes == changes


def test_the_place_of_an_old_batch_is_found_by_a_few_reads() -> None:
    store = FakeStore()
    log = load(store, config=LogConfig(index_interval_bytes=0))
    for _ in range(3000):
        append(log, batch(2, size=10))
    log.position_of(5)
    read_bytes = store.read_bytes
    places = [log.position_of(offset).position for offset in range(0, 6000, 999)]
    size = len(batch(2, size=10))
    assert places == [offset // 2 * size for offset in range(0, 6000, 999)]
    assert store.read_bytes - read_bytes < len(places) * 16_000


def test_the_size_of_a_log_is_that_of_its_segments_whatever_became_of_them() -> None:
    log = load(FakeStore())
    append(log, batch(2))

    def is_right() -> bool:
        return log.size_bytes == sum(segment.size for segment in log.segments)

    assert log.size_bytes == len(batch(2))
    for _ in range(60):
        append(log, batch(2))
        assert is_right()
    log.advance_high_watermark(log.log_end_offset)
    assert len(log.segments) > 4
    delete_segments(log, log.segments.base_offsets[1], NOW)
    assert is_right()
    truncate_to(log, log.segments.base_offsets[1] + 1, NOW)
    assert is_right()
    append(log, batch(2))
    assert is_right()


def test_the_size_of_a_log_is_not_added_up_over_its_segments_again_and_again() -> None:
    log = load(FakeStore())
    for _ in range(60):
        append(log, batch(2))
    assert log.size_bytes == sum(segment.size for segment in log.segments)
    log.segments[0].size += 1000
    assert log.size_bytes < sum(segment.size for segment in log.segments)
