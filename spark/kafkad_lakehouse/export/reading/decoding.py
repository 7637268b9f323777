"""Decode record batches to Arrow without a Python loop over the records (decision 046)."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kafkad.core.columns.arrays import Flags, Numbers
from kafkad.core.columns.records import PORTION_BYTES, Limits, RecordColumns, read_records
from kafkad.core.columns.varints import read_varints
from kafkad.core.columns.window import BatchWindow
from kafkad.core.log.records.batch import LOG_APPEND_TIME_FLAG
from kafkad.core.log.records.record import SMALLEST_RECORD
from kafkad.core.log.records.varint import read_varint
from kafkad_lakehouse.export.schema import CREATE_TIME, LOG_APPEND_TIME, METADATA, RECORDS

LIMITS = Limits(records=PORTION_BYTES // SMALLEST_RECORD, headers=1_000_000)
"""The number of records in a portion of small batches; headers as in decision 003. One batch of 8 KB can have ten times
as many records, which need gigabytes as columns.
"""
_FEW_RECORDS = 64
"""With fewer records a step in numpy is slower than a loop in Python."""
_US = 1_000
_LARGEST_MS = np.iinfo(np.int64).max // _US


def arrow_batches(
    window: BatchWindow,
    visible: Flags,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    with_headers: bool = True,
    with_metadata: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The records of the `visible` batches with offsets in `start` <= offset < `end`, some megabytes at a time.

    `with_metadata` adds the columns of `METADATA`. Raises `CorruptBatch`.
    """
    selected = visible & (window.last_offset >= start) & (window.column("base_offset") < end)
    if not selected.any():
        return
    appended = window.has_flag(LOG_APPEND_TIME_FLAG)
    for columns in read_records(window, selected, limits=LIMITS):
        rows = np.flatnonzero((columns.offset >= start) & (columns.offset < end))
        if rows.size:
            batch = _batch(columns, rows, appended, topic, partition, with_headers=with_headers)
            yield _with_metadata(batch, window, columns.batch[rows]) if with_metadata else batch


def _batch(
    columns: RecordColumns, rows: Numbers, appended: Flags, topic: str, partition: int, *, with_headers: bool
) -> pa.RecordBatch:
    count = rows.size
    buffer = pa.py_buffer(columns.data)
    kinds = np.where(appended[columns.batch[rows]], LOG_APPEND_TIME, CREATE_TIME).astype(np.int32)
    arrays = [
        slices(buffer, columns.key_at[rows], columns.key_size[rows]),
        slices(buffer, columns.value_at[rows], columns.value_size[rows]),
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([topic])).dictionary_decode(),
        pa.array(np.full(count, partition, np.int32)),
        pa.array(columns.offset[rows]),
        _timestamps(columns.timestamp[rows]),
        pa.array(kinds),
        _headers(columns, buffer, rows) if with_headers else pa.nulls(count, RECORDS.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _with_metadata(batch: pa.RecordBatch, window: BatchWindow, of_batch: Numbers) -> pa.RecordBatch:
    epochs = window.headers["leader_epoch"].astype(np.int32)[of_batch]
    producers = window.column("producer_id")[of_batch]
    added = [pa.array(epochs), pa.array(producers, mask=producers < 0)]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=pa.schema([*RECORDS, *METADATA]))


def slices(buffer: pa.Buffer, at: Numbers, size: Numbers) -> pa.Array:
    """The bytes at these positions, which ascend; a size of -1 is null.

    The buffer becomes an Arrow array of requested pieces and the gaps between them; one `take` copies the pieces.
    """
    count = at.size
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2] = at
    edges[1::2] = at + np.maximum(size, 0)
    edges[-1] = edges[-2] if count else 0
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(edges), buffer])
    chosen = pa.array(np.arange(0, 2 * count, 2, dtype=np.int64), mask=size < 0)
    return pieces.take(chosen)


def _timestamps(milliseconds: Numbers) -> pa.Array:
    """A missing timestamp is -1 ms, as in Spark's source; a timestamp beyond 64 bits of microseconds is null."""
    outside = np.abs(milliseconds) > _LARGEST_MS
    scaled = np.where(outside, 0, milliseconds) * _US
    return pa.array(scaled, mask=outside if outside.any() else None).cast(pa.timestamp("us", "UTC"))


def _headers(columns: RecordColumns, buffer: pa.Buffer, rows: Numbers) -> pa.Array:
    """The headers; null for a record without headers, as in Spark's source."""
    counts = columns.header_count[rows]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    kind = RECORDS.field("headers").type
    if total == 0:
        return pa.nulls(counts.size, kind)
    edges = pa.array(np.concatenate((np.zeros(1, np.int64), ends)).astype(np.int32))
    places = _header_places(columns, rows, counts, total)
    keys = slices(buffer, places[0], places[1])
    values = slices(buffer, places[2], places[3])
    pairs = pa.StructArray.from_arrays([_text(keys), values], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(edges, pairs, type=kind, mask=pa.array(counts == 0))


def _header_places(columns: RecordColumns, rows: Numbers, counts: Numbers, total: int) -> Numbers:
    """For each header of all rows, in order: position and size of the key, position and size of the value.

    While many records have another header, one step in numpy reads the next header of all these records.
    """
    data = np.frombuffer(columns.data, np.uint8)
    places = np.empty((4, total), np.int64)
    left = np.flatnonzero(counts)
    at = columns.headers_at[rows][left]
    row = (np.cumsum(counts) - counts)[left]
    remaining = counts[left]
    while row.size > _FEW_RECORDS:
        key = read_varints(data, at, 32)
        value = read_varints(data, key.end + key.values, 32)
        places[:, row] = key.end, key.values, value.end, value.values
        at = value.end + np.maximum(value.values, 0)
        continues = remaining > 1
        row, at, remaining = row[continues] + 1, at[continues], remaining[continues] - 1
    for first, begin, count in zip(row.tolist(), at.tolist(), remaining.tolist(), strict=True):
        places[:, first : first + count] = _places_within(columns.data, begin, count)
    return places


def _places_within(data: bytes, at: int, count: int) -> tuple[list[int], ...]:
    """The positions and sizes of `count` headers of one record."""
    key_at: list[int] = []
    key_size: list[int] = []
    value_at: list[int] = []
    value_size: list[int] = []
    for _ in range(count):
        size, at = read_varint(data, at)
        key_at.append(at)
        key_size.append(size)
        at += size
        size, at = read_varint(data, at)
        value_at.append(at)
        value_size.append(size)
        at += max(size, 0)
    return key_at, key_size, value_at, value_size


def _text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        # Not UTF-8: replace invalid bytes, as Java's clients do.
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
