"""The `.txnindex` file in Apache Kafka's format, and what is found in it for a range of offsets."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.log.segments.transaction_index import (
    ENTRY_SIZE,
    AbortedTransaction,
    TransactionIndex,
    collect_aborted,
    is_plausible,
    unpack_entries,
)
from tests.core.log.fake_store import FakeStore

NAME = "00000000000000000010.txnindex"
ONE = AbortedTransaction(producer_id=4711, first_offset=12, last_offset=20, last_stable_offset=15)
ONE_AS_BYTES = bytes.fromhex("00000000000000001267000000000000000c0000000000000014000000000000000f")


def test_an_entry_is_what_apache_kafka_writes() -> None:
    store = FakeStore()
    TransactionIndex(store, 10).append(ONE)
    assert store.read(NAME) == ONE_AS_BYTES
    assert unpack_entries(ONE_AS_BYTES) == [ONE]


def test_there_is_no_file_before_there_is_an_entry() -> None:
    store = FakeStore()
    index = TransactionIndex(store, 10)
    index.truncate_to(0)
    assert (store.sizes(), index.entries(), index.files()) == ({}, [], ())


def test_what_is_cut_off_is_forgotten_for_good() -> None:
    store = FakeStore()
    index = TransactionIndex(store, 10)
    for last in (20, 30, 40):
        index.append(ONE._replace(last_offset=last))
    index.truncate_to(30)
    store.lose_power(Random(1))
    assert store.sizes().get(NAME, 0) <= ENTRY_SIZE
    assert [entry.last_offset for entry in index.entries()] in ([20], [])


def test_an_index_that_says_the_same_is_not_written_again() -> None:
    store = FakeStore()
    index = TransactionIndex(store, 10)
    index.append(ONE)
    changes = store.changes
    index.rebuild([ONE])
    assert store.changes == changes
    index.rebuild([])
    assert store.sizes() == {}


def test_entries_must_be_of_version_zero_and_in_order() -> None:
    second = bytearray(ONE_AS_BYTES)
    second[25] = 21
    assert is_plausible(ONE_AS_BYTES + second, 10)
    assert is_plausible(b"", 10)
    assert not is_plausible(ONE_AS_BYTES + ONE_AS_BYTES, 10)
    assert not is_plausible(ONE_AS_BYTES, 21)
    assert not is_plausible(ONE_AS_BYTES[:-1], 10)
    assert not is_plausible(b"\x00\x01" + ONE_AS_BYTES[2:], 10)


ENTRIES = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30), st.integers(1, 5), st.integers(0, 9)), max_size=300)


@given(ENTRIES, st.integers(0, 400), st.integers(0, 400))
def test_what_overlaps_a_range_is_found(rows: list[tuple[int, int, int, int]], fetch_offset: int, length: int) -> None:
    store = FakeStore()
    index = TransactionIndex(store, 10)
    entries: list[AbortedTransaction] = []
    last = stable = 10
    for producer_id, length_of_it, step, stable_step in rows:
        last += step
        stable = min(max(stable, stable + stable_step), last + 1)
        entries.append(AbortedTransaction(producer_id, max(0, last - length_of_it), last, stable))
        index.append(entries[-1])
    if not entries:
        return
    upper = fetch_offset + length

    found = collect_aborted(store.open(NAME), fetch_offset, upper)

    seen = []
    for entry in entries:
        if entry.last_offset >= fetch_offset:
            seen.append(entry)
            if entry.last_stable_offset >= upper:
                break
    assert list(found.aborted) == [entry for entry in seen if entry.first_offset < upper]
    assert found.is_complete == any(entry.last_stable_offset >= upper for entry in seen)
