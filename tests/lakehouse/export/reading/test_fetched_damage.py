"""What a broker sends of a damaged batch is set aside only where nothing behind it can be hidden by that."""

from collections.abc import Sequence
from itertools import accumulate

import pytest

from kafkad.client.records import FetchedPartition
from kafkad.core.columns.window import split_window
from kafkad.core.log.records.batch import CorruptBatch, read_header
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad_lakehouse.export.reading.damage import Damaged
from kafkad_lakehouse.export.reading.fetched_damage import FetchAt, set_aside
from kafkad_lakehouse.export.reading.transactions import Aborted, CommittedFilter
from tests.lakehouse.export.reading.test_decoding import written

RECORDS = 3
VALUE = 90
BATCHES = [build_batch([NewRecord(1, None, b"v" * 50)] * RECORDS, base_offset=at) for at in range(0, 24, RECORDS)]
END = RECORDS * len(BATCHES)
SEGMENT = 4


def log_of(batches: Sequence[bytes]) -> FetchAt:
    """A broker's answers: from the batch with the offset to the end of its segment, but one batch at least."""
    ends = list(accumulate((RECORDS for _ in BATCHES), initial=0))[1:]

    def ask(offset: int, size: int) -> FetchedPartition:
        first = next(number for number, end in enumerate(ends) if offset < end)
        rest = b"".join(batches[first : first - first % SEGMENT + SEGMENT])
        return FetchedPartition(
            partition=0,
            high_watermark=END,
            last_stable_offset=END,
            records=rest[: max(size, len(batches[first]))],
        )

    return ask


def damaged(number: int, byte: int = VALUE, bits: int = 0x10) -> list[bytes]:
    content = bytearray(BATCHES[number])
    content[byte] ^= bits
    return [bytes(content) if at == number else each for at, each in enumerate(BATCHES)]


def taken_out(batches: Sequence[bytes], start: int, *, is_first: bool = False, fetch_bytes: int = 1 << 20) -> Damaged:
    """As a reader does when its first batch is damaged. Raises `CorruptBatch`."""
    ask = log_of(batches)
    with pytest.raises(CorruptBatch) as noticed:
        split_window(ask(start, 1 << 20).records, 0, 1 << 62)
    return set_aside(ask, start, noticed.value, fetch_bytes, is_committed=True, may_begin_before=is_first)


@pytest.mark.parametrize("fetch_bytes", [1, 100, 300, 1 << 20])
@pytest.mark.parametrize("number", range(len(BATCHES)))
def test_a_batch_with_a_wrong_checksum_ends_where_the_next_one_begins(number: int, fetch_bytes: int) -> None:
    batches = damaged(number)
    found = taken_out(batches, number * RECORDS, fetch_bytes=fetch_bytes)
    reason = "as the broker sent it: the checksum is wrong"
    assert found == Damaged(number * RECORDS, (number + 1) * RECORDS, batches[number], reason)


@pytest.mark.parametrize("number", [0, 3, 7])
@pytest.mark.parametrize("bits", [1, 0x80, 0xFF])
def test_whatever_is_damaged_nothing_else_is_taken_for_a_part_of_it(number: int, bits: int) -> None:
    for byte in range(len(BATCHES[number])):
        look_at(number, byte, bits)


def look_at(number: int, byte: int, bits: int) -> None:
    batches = damaged(number, byte, bits)
    ask = log_of(batches)
    try:
        window = split_window(ask(number * RECORDS, 1 << 20).records, 0, 1 << 62)
    except CorruptBatch as error:
        if error.position:
            return
        try:
            found = set_aside(ask, number * RECORDS, error, 1 << 20, is_committed=True, may_begin_before=False)
        except CorruptBatch:
            return
        assert found[:3] == (number * RECORDS, (number + 1) * RECORDS, batches[number])
    else:
        # Neither offsets nor the epoch of the leader are in the checksum; or its length says that more is to come.
        assert byte < 16
        assert len(window) == 0 or read_header(window.data).batch_length == read_header(BATCHES[number]).batch_length


def test_neighbours_that_are_damaged_are_set_aside_one_after_the_other() -> None:
    batches = [*damaged(1)[:2], *damaged(2)[2:]]
    assert [taken_out(batches, start)[:2] for start in (3, 6)] == [(3, 6), (6, 9)]


def test_a_range_that_begins_in_a_damaged_batch_knows_it_by_its_first_offset() -> None:
    assert taken_out(damaged(1), 4, is_first=True).offset == 3
    with pytest.raises(CorruptBatch):
        taken_out(damaged(1), 4)


def test_before_a_gap_nobody_knows_what_was_in_it() -> None:
    batches = damaged(1)
    batches[2] = build_batch([NewRecord(1, None, b"v" * 50)], base_offset=8)
    with pytest.raises(CorruptBatch, match="begins at 8, not at 6"):
        taken_out(batches, 3)


def test_at_the_end_of_a_segment_the_next_one_has_to_begin_there() -> None:
    batches = damaged(3)
    batches[4] = build_batch([NewRecord(1, None, b"v" * 50)], base_offset=13)
    with pytest.raises(CorruptBatch, match="its end is unknown"):
        taken_out(batches, 9)


def test_what_may_be_the_marker_of_an_aborted_transaction_is_known() -> None:
    committed = CommittedFilter([Aborted(7, 5), Aborted(8, 2, 4)])
    assert [committed.may_end_at(offset) for offset in (3, 5, 6)] == [False, False, True]
    committed.visible(split_window(written(5, 7), 0, 1 << 62))
    assert committed.may_end_at(6)
