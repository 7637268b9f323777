import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.log.producers.entry import Appended, ProducerEntry
from kafkad.core.log.producers.snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from tests.core.log import golden


def facts(entry: ProducerEntry) -> tuple[object, ...]:
    return (
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        entry.current_txn_first_offset,
        list(entry.batches),
    )


def test_a_snapshot_that_java_wrote_is_read_and_written_back() -> None:
    entries = decode_snapshot(golden.SNAPSHOT)
    assert [facts(entry) for entry in entries] == [
        (78, 2, 6, 5000, 31, []),
        (77, 3, -1, 1234567, None, [Appended(43, 7, 2, 1234567)]),
    ]
    assert encode_snapshot(entries) == golden.SNAPSHOT


def test_only_the_newest_batch_is_kept() -> None:
    entry = ProducerEntry(5, 1, last_timestamp=20, batches=[Appended(1, 10, 1, 10), Appended(3, 12, 1, 20)])
    assert [list(read.batches) for read in decode_snapshot(encode_snapshot([entry]))] == [[Appended(3, 12, 1, 20)]]


def test_no_producers_are_a_snapshot_too() -> None:
    assert decode_snapshot(encode_snapshot([])) == []


@pytest.mark.parametrize("size", range(len(golden.SNAPSHOT)))
def test_a_snapshot_that_is_cut_short_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(golden.SNAPSHOT[:size])


@given(st.integers(0, len(golden.SNAPSHOT) * 8 - 1))
def test_any_flipped_bit_makes_it_corrupt(bit: int) -> None:
    content = bytearray(golden.SNAPSHOT)
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(content))


def test_another_version_is_corrupt() -> None:
    with pytest.raises(CorruptSnapshot, match="version 1, found 2"):
        decode_snapshot(b"\0\2" + golden.SNAPSHOT[2:])
