"""What is believed after an unclean stop, and what a crash during recovery may not change."""

import dataclasses
from copy import deepcopy
from dataclasses import dataclass
from random import Random

import pytest

from kafkad.core.log.epochs import EpochEntry
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.recovery.loading import LoadRequest, load_steps
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.layout import ABORTED_COUNTS, LEADER_EPOCHS, TXN_INDEX, file_name
from kafkad.core.log.segments.removal import delete_records_before, truncate_fully_and_start_at
from kafkad.core.log.segments.transaction_index import ENTRY_SIZE, AbortedTransaction
from kafkad.core.log.settings import LogConfig
from tests.core.log.batches import NOW, PARTITION, SMALL, append, batch, load
from tests.core.log.fake_store import Crashed, FakeStore
from tests.core.log.log_content import batch_offsets, check_indexes, segment_bases
from tests.core.log.test_transactions import end, put

LOG_0 = "00000000000000000000.log"


def filled(store: FakeStore, batches: int = 30, config: LogConfig = SMALL) -> PartitionLog:
    log = load(store, config=config)
    for number in range(batches):
        append(log, batch(2, producer_id=1, sequence=2 * number, timestamp=NOW + number), epoch=number // 10)
    for segment in log.segments:
        segment.flush_indexes()
    return log


def sync_all(store: FakeStore) -> None:
    for content in store.files.values():
        content.sync()
    store.sync_directory()


def test_everything_intact_is_kept_with_epochs_and_producers() -> None:
    store = FakeStore()
    log = filled(store)
    again = load(store)
    assert again.log_end == log.log_end
    assert again.epochs.entries == log.epochs.entries
    assert append(again, batch(2, producer_id=1, sequence=58)).duplicate
    assert check_indexes(store) > 10


def test_lost_epochs_are_found_again_in_the_batches() -> None:
    store = FakeStore()
    log = filled(store)
    store.unlink(LEADER_EPOCHS)
    assert load(store).epochs.entries == log.epochs.entries
    store.files[LEADER_EPOCHS].live[:3] = b"\0\0\0"
    assert load(store).epochs.entries == log.epochs.entries


def test_a_torn_last_batch_is_cut_off() -> None:
    store = FakeStore()
    log = filled(store, batches=3)
    store.open(LOG_0).truncate(log.segments.active.size - 1)
    again = load(store)
    assert again.log_end_offset == 4
    assert batch_offsets(store, 100) == [(0, 1), (2, 3)]
    assert append(again, batch(2, producer_id=1, sequence=4)).base_offset == 4


def test_zeros_at_the_end_of_the_file_are_cut_off() -> None:
    store = FakeStore()
    log = filled(store, batches=3)
    store.open(LOG_0).truncate(log.segments.active.size + 5000)
    assert load(store).log_end == log.log_end


def test_segments_after_a_bad_batch_are_deleted() -> None:
    store = FakeStore()
    log = filled(store)
    bases = log.segments.base_offsets
    assert len(bases) >= 3
    store.flip_bit(f"{bases[1]:020d}.log", 100, 3)
    again = load(store)
    assert again.segments.base_offsets == bases[:2]
    assert again.log_end_offset == bases[1]
    assert not [name for name in store.sizes() if name.startswith(f"{bases[2]:020d}")]


def test_nothing_below_the_recovery_point_is_read_again() -> None:
    store = FakeStore()
    log = filled(store)
    bases = log.segments.base_offsets
    store.flip_bit(LOG_0, 100, 3)
    assert load(store, recovery_point=bases[1]).log_end_offset == 60


def test_a_recovery_point_beyond_the_log_checks_the_last_segment() -> None:
    store = FakeStore()
    log = filled(store)
    last = log.segments.base_offsets[-1]
    store.flip_bit(f"{last:020d}.log", 100, 3)
    again = load(store, recovery_point=1000)
    assert again.log_end_offset == last
    assert again.recovery_point == last


def test_a_segment_that_came_back_from_before_a_truncation_is_dropped() -> None:
    store = FakeStore()
    filled(store)
    stale = dict(store.files)
    for name in list(store.sizes()):
        store.unlink(name)
    log = load(store, config=dataclasses.replace(SMALL, segment_bytes=100_000))
    for _ in range(70):
        append(log, batch(1))
    for name, content in stale.items():
        store.files.setdefault(name, content)
    assert load(store).log_end_offset == 70
    assert segment_bases(store) == [0]


def test_offsets_that_go_back_end_the_log() -> None:
    store = FakeStore()
    log = load(store, config=LogConfig())
    append(log, batch(2))
    end = log.segments.active.size
    store.open(LOG_0).write_at((bytes(batch(2, base_offset=1, leader_epoch=0)),), end)
    assert load(store).log_end_offset == 2


@pytest.mark.parametrize("region", ["base_offset", "length", "epoch", "magic", "crc", "attributes", "body"])
def test_a_flipped_bit_in_any_region_of_the_last_batch_loses_that_batch_alone(region: str) -> None:
    start, end = {
        "base_offset": (0, 8),
        "length": (8, 12),
        "epoch": (12, 16),
        "magic": (16, 17),
        "crc": (17, 21),
        "attributes": (21, 61),
        "body": (61, len(batch(2))),
    }[region]
    for byte in range(start, end):
        for bit in range(0, 8, 3):
            store = FakeStore()
            log = filled(store, batches=3)
            store.flip_bit(LOG_0, log.segments.active.size - len(batch(2)) + byte, bit)
            again = load(store)
            if region == "epoch":
                # The epoch lies outside the checksum, as in Kafka: the batch stays.
                assert again.log_end_offset == 6
            elif region == "base_offset":
                # Also outside: a base offset that grew is a gap like compaction leaves; any other is refused.
                assert again.log_end_offset == 4 or again.log_end_offset > 6
            else:
                assert again.log_end_offset == 4


def test_snapshots_above_the_recovered_end_are_removed() -> None:
    store = FakeStore()
    log = filled(store)
    log.close()
    bases = log.segments.base_offsets
    store.flip_bit(f"{bases[1]:020d}.log", 100, 3)
    again = load(store)
    assert not [name for name in store.sizes() if name.endswith(".snapshot") and int(name[:20]) > bases[1]]
    assert not append(again, batch(2, producer_id=1, sequence=bases[1])).duplicate


def test_a_damaged_snapshot_is_replaced_by_the_log() -> None:
    store = FakeStore()
    log = filled(store)
    log.close()
    store.flip_bit(f"{60:020d}.snapshot", 10, 1)
    again = load(store, was_clean=True, recovery_point=60)
    assert append(again, batch(2, producer_id=1, sequence=58)).duplicate


def test_recovery_tells_how_far_it_is_and_what_it_cut() -> None:
    store = FakeStore()
    log = filled(store)
    store.open(f"{log.segments.base_offsets[-1]:020d}.log").truncate(log.segments.active.size - 1)
    request = LoadRequest(partition=PARTITION, config=SMALL, was_clean=False, now_ms=NOW)
    steps = list(load_steps(store, request))
    assert all(step.bytes_done <= step.bytes_total for step in steps)
    assert steps[-1].bytes_done > 0
    (message,) = [step.message for step in steps if step.message]
    assert "truncated" in message


@pytest.mark.parametrize("tear", [None, 0.0, 0.5])
def test_a_crash_at_any_step_of_recovery_leads_to_the_same_log(tear: float | None) -> None:
    def damaged() -> FakeStore:
        store = FakeStore()
        bases = filled(store).segments.base_offsets
        store.flip_bit(f"{bases[2]:020d}.log", 300, 3)
        sync_all(store)
        return store

    store = damaged()
    before = store.changes
    expected = load(store).log_end_offset
    needed = store.changes - before
    assert needed > 5
    for step in range(1, needed + 1):
        store = damaged()
        store.crash_at = store.changes + step
        store.tear = tear
        with pytest.raises(Crashed):
            load(store)
        store.lose_power(Random(step))
        again = load(store)
        assert again.log_end_offset == expected
        assert check_indexes(store) > 0


@pytest.mark.parametrize("tear", [None, 0.3])
def test_a_crash_at_any_step_of_appending_loses_no_synced_batch(tear: float | None) -> None:
    def run(store: FakeStore, log: PartitionLog, synced: list[int]) -> None:
        for number in range(25):
            append(log, batch(2, producer_id=1, sequence=2 * number), epoch=number // 10)
            if number % 5 == 4:
                log.flush()
                synced.append(log.log_end_offset)

    store = FakeStore()
    run(store, load(store), [])
    for step in range(1, store.changes + 1):
        store = FakeStore()
        store.crash_at, store.tear = step, tear
        synced = [0]
        with pytest.raises(Crashed):
            run(store, load(store), synced)
        store.lose_power(Random(step))
        again = load(store, recovery_point=synced[-1])
        assert again.log_end_offset >= synced[-1]
        assert batch_offsets(store, 10**6) == [(n, n + 1) for n in range(0, again.log_end_offset, 2)]
        sequence = again.log_end_offset
        assert append(again, batch(2, producer_id=1, sequence=sequence)).base_offset == sequence
        if sequence:
            assert append(again, batch(2, producer_id=1, sequence=sequence - 2)).duplicate


def test_recovery_tells_how_many_segments_are_left() -> None:
    store = FakeStore()
    log = load(store)
    for _ in range(60):
        append(log, batch(2))
    request = LoadRequest(partition=PARTITION, config=SMALL, was_clean=False, now_ms=NOW)
    left = [step.remaining_segments for step in load_steps(store, request) if step.remaining_segments]
    assert left == sorted(left, reverse=True)
    assert (left[0], left[-1]) == (len(log.segments), 1)


def test_a_transaction_whose_first_batch_the_log_begins_in_is_known_after_a_crash() -> None:
    """DeleteRecords may end in the middle of a batch: its abort found nothing to abort, and consumers got the rest."""
    store = FakeStore()
    log = load(store)
    records = batch(3, producer_id=1, sequence=0, is_transactional=True)
    append_as_follower(log, records, leader_epoch=0, now_ms=NOW)
    log.advance_high_watermark(log.log_end_offset)
    delete_records_before(log, 1)
    log = load(store, log_start_offset=1)
    assert log.producers.transactions.first_unstable is not None


def test_a_batch_in_which_the_log_begins_is_known_to_be_there_after_a_crash() -> None:
    store = FakeStore()
    log = load(store)
    append(log, batch(3, producer_id=1, sequence=0))
    log.advance_high_watermark(log.log_end_offset)
    delete_records_before(log, 1)
    assert append(load(store, log_start_offset=1), batch(3, producer_id=1, sequence=0)).duplicate


LOST = {
    "epochs": (LEADER_EPOCHS,),
    "snapshots": (".snapshot",),
    "offset indexes": (".index",),
    "transaction indexes": (".txnindex",),
    "all indexes": (".index", ".timeindex", ".txnindex"),
    "everything": (LEADER_EPOCHS, ".snapshot", ".index", ".timeindex", ".txnindex"),
}


@dataclass(frozen=True)
class Known:
    """What a log knows beyond its batches."""

    epochs: list[EpochEntry]
    producers: list[tuple[int, int, int | None]]
    aborted: list[list[AbortedTransaction]]
    end: int


def known(log: PartitionLog) -> Known:
    return Known(
        log.epochs.entries,
        sorted((each.producer_id, each.last_offset, each.current_txn_first_offset) for each in log.producers.active()),
        [segment.aborted.entries() for segment in log.segments],
        log.log_end_offset,
    )


def written(store: FakeStore) -> PartitionLog:
    """Several segments and epochs; producers, and transactions that were aborted, committed and left open."""
    log = load(store)
    put(log, 0, producer=8)
    end(log, producer=8, commit=False)
    log.roll(log.log_end_offset, NOW)
    put(log, 0, producer=9)
    end(log, producer=9, commit=True)
    put(log, 0, producer=7)
    for epoch in range(3):
        for number in range(12):
            append(log, batch(2, producer_id=1, sequence=epoch * 24 + number * 2), epoch=epoch)
    return log


def lose(store: FakeStore, suffixes: tuple[str, ...]) -> None:
    for name in list(store.sizes()):
        if name.endswith(suffixes):
            store.unlink(name)


@pytest.mark.parametrize("suffixes", LOST.values(), ids=LOST)
@pytest.mark.parametrize("was_clean", [True, False])
def test_what_is_lost_is_found_again(suffixes: tuple[str, ...], was_clean: bool) -> None:
    store = FakeStore()
    log = written(store)
    assert len(log.segments) > 3
    before = known(log)
    assert len(before.epochs) > 1 and len(before.producers) == 4 and any(before.aborted)
    log.close()
    lose(store, suffixes)
    again = load(store, was_clean=was_clean, recovery_point=log.log_end_offset)
    assert known(again) == before
    again.close()
    assert known(load(store, was_clean=True, recovery_point=log.log_end_offset)) == before


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("suffixes", LOST.values(), ids=LOST)
def test_what_was_being_found_again_is_found_by_the_next_start(suffixes: tuple[str, ...], loses_power: bool) -> None:
    """It is stopped before each step."""
    found = FakeStore()
    log = written(found)
    before = known(log)
    log.close()
    lose(found, suffixes)
    found.sync_directory()
    step, crashed = 0, True
    while crashed:
        store = deepcopy(found)
        store.crash_at = store.changes + step + 1
        crashed = False
        try:
            load(store, recovery_point=log.log_end_offset)
        except Crashed:
            crashed = True
        if loses_power:
            store.lose_power(Random(step))
        else:
            store.kill()
        assert known(load(store, recovery_point=log.log_end_offset)) == before
        step += 1
    assert step > 1


@pytest.mark.parametrize("is_taken_over", [False, True])
@pytest.mark.parametrize("size", [0, ENTRY_SIZE])
def test_a_transaction_index_that_ends_too_early_is_made_anew(size: int, is_taken_over: bool) -> None:
    """It was cut between two entries. In a directory of Apache Kafka only the first start has to find it whole."""
    store = FakeStore()
    log = load(store)
    for sequence in range(2):
        put(log, sequence)
        end(log, commit=False)
    before = known(log)
    log.close()
    if is_taken_over:
        store.unlink(ABORTED_COUNTS)
        load(store, was_clean=True, recovery_point=log.log_end_offset).close()
    index = store.open(file_name(0, TXN_INDEX))
    index.truncate(size)
    index.close()
    again = load(store, was_clean=True, recovery_point=log.log_end_offset)
    assert known(again) == before
    again.close()


def test_what_was_truncated_is_missed_by_no_later_start() -> None:
    store = FakeStore()
    log = written(store)
    log.complete()
    assert store.read(ABORTED_COUNTS) == b"0\n1\n0 1\n"
    truncate_fully_and_start_at(log, 0, NOW)
    append(log, batch(2, timestamp=NOW))
    log.complete()
    assert store.read(ABORTED_COUNTS) == b"0\n0\n"


TORN = (b"", b"\0" * 9, b"0\n2\n0 1\n", b"1\n1\n0 1\n", b"0\n1\nnone 1\n", b"0\n1\n0 " + b"1" * 5_000)


@pytest.mark.parametrize("content", TORN)
def test_counts_of_aborted_transactions_that_were_torn_are_written_anew(content: bytes) -> None:
    store = FakeStore()
    log = written(store)
    before = known(log)
    log.close()
    counts = store.read(ABORTED_COUNTS)
    assert counts == b"0\n1\n0 1\n"
    store.replace(ABORTED_COUNTS, content)
    assert known(load(store, was_clean=True, recovery_point=log.log_end_offset)) == before
    assert store.read(ABORTED_COUNTS) == counts


def test_counts_that_have_no_room_leave_those_before_and_are_written_later() -> None:
    store = FakeStore()
    log = written(store)
    log.complete()
    assert store.read(ABORTED_COUNTS) == b"0\n1\n0 1\n"
    end(log, commit=False)
    store.full_for = ABORTED_COUNTS
    log.complete()
    assert store.read(ABORTED_COUNTS) == b"0\n1\n0 1\n"
    store.full_for = None
    log.complete()
    assert store.read(ABORTED_COUNTS) == b"0\n2\n0 1\n%d 1\n" % log.segments.active.base_offset


def test_a_log_without_aborted_transactions_has_no_counts() -> None:
    store = FakeStore()
    log = load(store)
    put(log, 0)
    end(log, commit=True)
    log.close()
    load(store, was_clean=True, recovery_point=log.log_end_offset).close()
    assert ABORTED_COUNTS not in store.sizes()


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"0\n2\n1 1\n"])
def test_epochs_that_were_torn_or_never_written_are_found_again(content: bytes) -> None:
    store = FakeStore()
    log = written(store)
    log.close()
    store.replace(LEADER_EPOCHS, content)
    assert load(store, was_clean=True, recovery_point=log.log_end_offset).epochs.entries == log.epochs.entries


def test_a_log_without_epochs_is_searched_once() -> None:
    store = FakeStore()
    log = load(store)
    log.segments.active.log.write_at((batch(1, leader_epoch=-1),), 0)
    store.unlink(LEADER_EPOCHS)
    assert load(store).epochs.entries == []
    assert store.read(LEADER_EPOCHS) == b"0\n0\n"


def test_a_log_whose_producers_have_expired_is_not_read_for_them() -> None:
    store = FakeStore()
    log = load(store)
    for number in range(200):
        append(log, batch(2, producer_id=1, sequence=number * 2))
    log.close()
    lose(store, (".snapshot",))
    store.reads = 0
    load(store, was_clean=True, recovery_point=400, now_ms=NOW + 90_000_000)
    assert store.reads < 20
