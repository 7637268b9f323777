"""A batch whose records can't be read is set aside, and nothing beside it."""

from collections.abc import Collection, Iterator

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.window import BatchWindow, split_window
from kafkad.core.log.records.batch import HEADER_SIZE, Codec, CorruptBatch, read_header
from kafkad.core.log.records.compression import MAX_DECOMPRESSED_BYTES
from kafkad.core.log.records.record import NewRecord, build_batch, seal_batch
from kafkad.core.log.records.varint import append_varint
from kafkad_lakehouse.export.reading.damage import Damaged
from kafkad_lakehouse.export.reading.decoding import LIMITS, arrow_batches
from kafkad_lakehouse.export.reading.transactions import CommittedFilter
from kafkad_lakehouse.export.reading.unreadable import without_unreadable

RECORDS = 3
FAR = 1 << 62
SMALLEST = bytes((12, 0, 0, 0, 1, 1, 0))
"""A record without key and value, behind its length: all of a batch have the same offset, which is seen last."""


def sound(number: int, codec: Codec = Codec.NONE) -> bytes:
    return build_batch([NewRecord(1, None, b"v" * 50)] * RECORDS, base_offset=number * RECORDS, codec=codec)


def false(number: int) -> bytes:
    """It names more records than it has."""
    batch = sound(number)
    return seal_batch(read_header(batch)._replace(records_count=RECORDS + 1), batch[HEADER_SIZE:])


def packed(number: int, body: bytes, count: int = RECORDS) -> bytes:
    header = read_header(sound(number))._replace(attributes=Codec.ZSTD, records_count=count)
    return seal_batch(header, zstandard.compress(body))


def with_headers(count: int) -> bytes:
    """One record with so many empty headers."""
    inner = bytearray((0, 0, 0, 1, 1))
    append_varint(inner, count)
    inner += bytes((0, 1)) * count
    body = bytearray()
    append_varint(body, len(inner))
    return bytes(body + inner)


def pieces(data: bytes, start: int = 0, end: int = FAR) -> list[list[int] | Damaged]:
    """The offsets of each Arrow batch, and what is set aside."""
    window = split_window(data, 0, len(data))

    def decode(part: BatchWindow, visible: Flags, first: int) -> Iterator[pa.RecordBatch]:
        return arrow_batches(part, visible, "t", 0, first, end)

    found = without_unreadable(window, CommittedFilter().visible(window), start, decode)
    return [each.column("offset").to_pylist() if isinstance(each, pa.RecordBatch) else each for each in found]


@given(st.integers(1, 20), st.sets(st.integers(0, 19)), st.integers(0, 60), st.booleans())
def test_all_other_records_are_read_once(count: int, wrong: Collection[int], start: int, is_packed: bool) -> None:
    codec = Codec.ZSTD if is_packed else Codec.NONE
    batches = [false(number) if number in wrong else sound(number, codec) for number in range(count)]
    found = pieces(b"".join(batches), start)
    rows = [offset for each in found if isinstance(each, list) for offset in each]
    assert rows == [at for at in range(start, count * RECORDS) if at // RECORDS not in wrong]
    aside = [each for each in found if isinstance(each, Damaged)]
    expected = [each for each in range(count) if each in wrong and (each + 1) * RECORDS > start]
    assert [(each.offset, each.end) for each in aside] == [(at * RECORDS, (at + 1) * RECORDS) for at in expected]
    assert [each.data for each in aside] == [batches[each] for each in expected]
    assert all(each.is_whole for each in aside)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (
            packed(1, bytes(MAX_DECOMPRESSED_BYTES + 1)),
            f"the decompressed records exceed the limit of {MAX_DECOMPRESSED_BYTES}",
        ),
        (packed(1, SMALLEST * (LIMITS.records + 1), LIMITS.records + 1), f"the batch has {LIMITS.records + 1} records"),
        (packed(1, with_headers(LIMITS.headers + 1), 1), f"the records have {LIMITS.headers + 1} headers"),
        (packed(1, b"no records, but long enough"), "the record at byte 0 of the records is malformed"),
        (false(1), "the record at byte 171"),
    ],
    ids=["bytes", "records", "headers", "rubbish", "count"],
)
def test_a_batch_is_named_as_what_it_is(batch: bytes, reason: str) -> None:
    first, aside, last = pieces(sound(0) + batch + sound(2))
    assert (first, last) == ([0, 1, 2], [6, 7, 8])
    assert isinstance(aside, Damaged) and aside[:3] == (3, 6, batch)
    assert reason in aside.reason
    assert str(aside) == f"the records of a batch can't be read: {aside.reason}; it ends at offset 5"


def test_a_batch_that_is_not_wanted_is_not_opened() -> None:
    data = sound(0) + false(1) + sound(2)
    assert pieces(data, end=RECORDS) == [[0, 1, 2]]
    assert pieces(data, start=2 * RECORDS) == [[6, 7, 8]]


def test_headers_up_to_the_limit_are_columns() -> None:
    data = packed(0, with_headers(10_000), 1)
    window = split_window(data, 0, len(data))
    (batch,) = arrow_batches(window, CommittedFilter().visible(window), "t", 0, 0, FAR)
    assert batch.column("headers").to_pylist() == [[{"key": "", "value": None}] * 10_000]


def test_who_sets_nothing_aside_is_told_where_it_is() -> None:
    data = sound(0) + false(1)
    window = split_window(data, 0, len(data))
    with pytest.raises(CorruptBatch) as refused:
        list(arrow_batches(window, CommittedFilter().visible(window), "t", 0, 0, FAR))
    assert refused.value.position == len(sound(0))
