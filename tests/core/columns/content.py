"""Batches of every kind, and what plain reader and columns make of them."""

from hypothesis import strategies as st

from kafkad.core.columns.records import PORTION_BYTES, RecordColumns, read_records
from kafkad.core.columns.window import split_window
from kafkad.core.log.records.batch import Codec, read_header
from kafkad.core.log.records.record import NewRecord, build_batch, iter_records, record_timestamp

Row = tuple[int, int, bytes | None, bytes | None, int]
"""Offset, timestamp, key, value, number of headers."""

nullable_bytes = st.none() | st.binary(max_size=40) | st.integers(60, 9000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=10), nullable_bytes), max_size=3).map(tuple)
"""Lengths of two bytes too."""


@st.composite
def batches(draw: st.DrawFn, base_offset: int = 0) -> bytes:
    """One batch with gaps in its offsets; of any codec, some with LogAppendTime, some empty."""
    deltas = sorted(draw(st.sets(st.integers(0, 300) | st.integers(0, 2**31 - 1), max_size=8)))
    records = [
        NewRecord(draw(st.integers(0, 2**45)), draw(nullable_bytes), draw(nullable_bytes), draw(headers), delta)
        for delta in deltas
    ]
    return build_batch(
        records,
        base_offset=base_offset,
        codec=draw(st.sampled_from(list(Codec))),
        last_offset_delta=max(deltas, default=0) + (0 if deltas and deltas[-1] > 2**30 else draw(st.integers(0, 5))),
        log_append_time=draw(st.none() | st.integers(0, 2**45)),
        delete_horizon_ms=draw(st.none() | st.integers(0, 2**45)),
    )


@st.composite
def windows(draw: st.DrawFn) -> bytes:
    data = bytearray()
    base_offset = 0
    for _ in range(draw(st.integers(1, 6))):
        data += draw(batches(base_offset + draw(st.integers(0, 3))))
        base_offset = _next_offset(bytes(data))
    return bytes(data)


def _next_offset(data: bytes) -> int:
    position = next_offset = 0
    while position < len(data):
        header = read_header(data, position)
        next_offset, position = header.next_offset, position + header.size
    return next_offset


def plain_rows(data: bytes) -> list[Row]:
    rows: list[Row] = []
    position = 0
    while position < len(data):
        header = read_header(data, position)
        for record in iter_records(memoryview(data)[position : position + header.size]):
            offset = header.base_offset + record.offset_delta
            rows.append((offset, record_timestamp(header, record), record.key, record.value, len(record.headers)))
        position += header.size
    return rows


def column_rows(data: bytes, max_bytes: int = PORTION_BYTES) -> list[Row]:
    window = split_window(data, 0, len(data))
    return [row for records in read_records(window, max_bytes=max_bytes) for row in rows_of(records)]


def rows_of(records: RecordColumns) -> list[Row]:
    def field(at: int, size: int) -> bytes | None:
        return None if size < 0 else records.data[at : at + size]

    keys = map(field, records.key_at.tolist(), records.key_size.tolist())
    values = map(field, records.value_at.tolist(), records.value_size.tolist())
    offsets, times = records.offset.tolist(), records.timestamp.tolist()
    return list(zip(offsets, times, keys, values, records.header_count.tolist(), strict=True))
