"""Files that are derived from a log are lost: each is found again in the batches, after any kind of stop."""

from copy import deepcopy
from dataclasses import dataclass
from random import Random

import pytest

from kafkad.core.log.epochs import EpochEntry
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.layout import ABORTED_COUNTS, LEADER_EPOCHS, TXN_INDEX, file_name
from kafkad.core.log.segments.removal import truncate_fully_and_start_at
from kafkad.core.log.segments.transaction_index import ENTRY_SIZE, AbortedTransaction
from tests.core.log.batches import NOW, append, batch, load
from tests.core.log.fake_store import Crashed, FakeStore
from tests.core.log.test_transactions import end, put

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
