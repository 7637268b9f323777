"""Where are the records in a window of batches, and their keys, values and headers?

The position of a record depends on the length of the previous one, so many batches are scanned in lockstep: each numpy
step advances one record in each of them. The fields are then read as columns. Any bytes give the same records as
`record.iter_records`, or `CorruptBatch`; in addition offsets must increase within their batch, and be in the range of
its header.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from kafkad.core.columns.arrays import Bytes, Flags, Numbers
from kafkad.core.columns.starts import record_starts
from kafkad.core.columns.varints import Varints, read_varints
from kafkad.core.columns.window import BatchWindow
from kafkad.core.log.records.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME_FLAG, Codec, CorruptBatch
from kafkad.core.log.records.compression import MAX_DECOMPRESSED_BYTES, DecompressionFailed, decompress
from kafkad.core.log.records.record import SMALLEST_RECORD, MalformedRecords, iter_checked
from kafkad.core.log.records.record_headers import end_of_headers

PORTION_BYTES = 16 * 1024 * 1024
"""Decompressed bytes at once: a window of a megabyte may contain a thousand times as much."""
_FEW_BATCHES = 200
"""With fewer batches a numpy step costs more than plain Python."""
_FEW_RECORDS = 64


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The records of the batches `first_batch` to `end_batch` of `window`, one row each, in the order of offsets.

    Positions are in `data`. A size of -1 is null.
    """

    window: BatchWindow
    first_batch: int
    end_batch: int
    data: bytes
    first_row: Numbers
    """The row of each batch's first record; the last element is the number of rows."""
    batch: Numbers
    """The number of each record's batch in the window."""
    start: Numbers
    end: Numbers
    offset: Numbers
    timestamp: Numbers
    fields_at: Numbers
    """The position after the timestamp, of the offset."""
    key_at: Numbers
    key_size: Numbers
    value_at: Numbers
    value_size: Numbers
    headers_at: Numbers
    header_count: Numbers

    def __len__(self) -> int:
        return self.start.size


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum records and headers of one batch: a row of the columns takes some hundred bytes."""

    records: int
    headers: int


@dataclass(frozen=True, slots=True)
class _Bodies:
    """The uncompressed records of some batches, and their positions in `data`."""

    first_batch: int
    end_batch: int
    data: bytes
    start: Numbers
    end: Numbers
    count: Numbers
    max_headers: int


UNLIMITED = Limits(records=1 << 31, headers=MAX_DECOMPRESSED_BYTES)


def read_records(
    window: BatchWindow, selected: Flags | None = None, max_bytes: int = PORTION_BYTES, limits: Limits = UNLIMITED
) -> Iterator[RecordColumns]:
    """The records of the window in portions of whole batches of about `max_bytes`.

    Batches that are not `selected` are not read and have no rows. Raises `CorruptBatch` also above the limits.
    """
    _check_counts(window, selected, limits.records)
    first = 0
    while first < len(window):
        bodies = _open_bodies(window, selected, first, max_bytes, limits.headers)
        yield _columns(window, bodies)
        first = bodies.end_batch


def _check_counts(window: BatchWindow, selected: Flags | None, max_records: int) -> None:
    too_many = window.column("records_count") > max_records
    if selected is not None:
        too_many &= selected
    if too_many.any():
        batch = int(np.argmax(too_many))
        count = int(window.headers["records_count"][batch])
        raise CorruptBatch(window.position_of(batch), f"the batch has {count} records, the limit is {max_records}")


def _open_bodies(window: BatchWindow, selected: Flags | None, first: int, max_bytes: int, max_headers: int) -> _Bodies:
    codecs = (window.headers["attributes"][first:] & CODEC_MASK).tolist()
    is_selected = [True] * len(codecs) if selected is None else selected[first:].tolist()
    if any(codec and use for codec, use in zip(codecs, is_selected, strict=True)):
        return _decompress(window, codecs, is_selected, first, max_bytes, max_headers)
    start = window.at[first:] + HEADER_SIZE
    end = window.at[first:] + window.size[first:]
    count = window.column("records_count")[first:]
    if selected is not None:
        count *= selected[first:]
        end = np.where(selected[first:], end, start)
    return _checked(window, _Bodies(first, len(window), window.data, start, end, count, max_headers))


def _decompress(
    window: BatchWindow, codecs: list[int], is_selected: list[bool], first: int, max_bytes: int, max_headers: int
) -> _Bodies:
    chunks: list[bytes | memoryview] = []
    ends: list[int] = []
    view = memoryview(window.data)
    total = 0
    rows = zip(codecs, is_selected, window.at[first:].tolist(), window.size[first:].tolist(), strict=True)
    for codec, use, at, size in rows:
        if use:
            packed = view[at + HEADER_SIZE : at + size]
            try:
                chunk = packed if codec == Codec.NONE else decompress(codec, packed, MAX_DECOMPRESSED_BYTES)
            except DecompressionFailed as error:
                raise CorruptBatch(window.position + at, str(error)) from error
            chunks.append(chunk)
            total += len(chunk)
        ends.append(total)
        if total >= max_bytes:
            break
    end_batch = first + len(ends)
    end = np.array(ends, np.int64)
    start = np.concatenate((np.zeros(1, np.int64), end[:-1]))
    count = window.column("records_count")[first:end_batch] * np.array(is_selected[: len(ends)], np.bool_)
    return _checked(window, _Bodies(first, end_batch, b"".join(chunks), start, end, count, max_headers))


def _checked(window: BatchWindow, bodies: _Bodies) -> _Bodies:
    wrong = (bodies.count < 0) | (bodies.count * SMALLEST_RECORD > bodies.end - bodies.start)
    wrong |= (bodies.count == 0) & (bodies.end > bodies.start)
    if wrong.any():
        _reject(window, bodies.first_batch + int(np.argmax(wrong)), bodies.max_headers)
    return bodies


def _columns(window: BatchWindow, bodies: _Bodies) -> RecordColumns:
    data = np.frombuffer(bodies.data, np.uint8)
    first_row = np.concatenate((np.zeros(1, np.int64), np.cumsum(bodies.count)))
    batch = np.repeat(np.arange(bodies.first_batch, bodies.end_batch), bodies.count)
    start = _record_starts(window, bodies, data, first_row)
    filled = np.flatnonzero(bodies.count)
    end = np.empty_like(start)
    end[:-1] = start[1:]
    end[first_row[filled + 1] - 1] = bodies.end[filled]
    _length, at, _ = read_varints(data, start, 32)
    time_delta = read_varints(data, at + 1, 64)
    offset_delta = read_varints(data, time_delta.end, 32)
    key = read_varints(data, offset_delta.end, 32)
    value = read_varints(data, key.end + np.maximum(key.values, 0), 32)
    headers = read_varints(data, value.end + np.maximum(value.values, 0), 32)
    broken = _outside(end, time_delta, offset_delta, key, value, headers)
    deltas = offset_delta.values
    broken |= (deltas < 0) | (deltas > window.column("last_offset_delta")[batch])
    broken[1:] |= (batch[1:] == batch[:-1]) & (deltas[1:] <= deltas[:-1])
    if not broken.any():
        _check_header_counts(window, bodies, batch, headers.values)
        broken |= _broken_headers(bodies.data, data, headers, end)
    if broken.any():
        _reject(window, int(batch[np.argmax(broken)]), bodies.max_headers)
    return RecordColumns(
        window=window,
        first_batch=bodies.first_batch,
        end_batch=bodies.end_batch,
        data=bodies.data,
        first_row=first_row,
        batch=batch,
        start=start,
        end=end,
        offset=window.column("base_offset")[batch] + deltas,
        timestamp=_timestamps(window, batch, time_delta.values),
        fields_at=time_delta.end,
        key_at=key.end,
        key_size=key.values,
        value_at=value.end,
        value_size=value.values,
        headers_at=headers.end,
        header_count=headers.values,
    )


def _check_header_counts(window: BatchWindow, bodies: _Bodies, batch: Numbers, counts: Numbers) -> None:
    """Check the counts before the headers are read: a batch of some kilobytes may have millions."""
    if counts.sum() <= bodies.max_headers:
        return
    of_batches = np.zeros(bodies.end_batch - bodies.first_batch, np.int64)
    np.add.at(of_batches, batch - bodies.first_batch, counts)
    too_many = of_batches > bodies.max_headers
    if too_many.any():
        first = int(np.argmax(too_many))
        raise CorruptBatch(
            window.position_of(bodies.first_batch + first),
            f"the records have {of_batches[first]} headers, the limit is {bodies.max_headers}",
        )


def _timestamps(window: BatchWindow, batch: Numbers, deltas: Numbers) -> Numbers:
    """The timestamps of records; with LogAppendTime those of their batches."""
    times = window.column("base_timestamp")[batch] + deltas
    appended = window.has_flag(LOG_APPEND_TIME_FLAG)
    if appended.any():
        times = np.where(appended[batch], window.column("max_timestamp")[batch], times)
    return times


def _outside(end: Numbers, *fields: Varints) -> Flags:
    """The rows with a malformed field, or with fields beyond the record: positions increase from field to field."""
    last = fields[-1]
    broken: Flags = (last.end > end) | (last.values < 0) | (last.values > end - last.end)
    broken |= (last.values == 0) & (last.end != end)
    for field in fields:
        if field.broken is not None:
            broken |= field.broken
    return broken


def _record_starts(window: BatchWindow, bodies: _Bodies, data: Bytes, first_row: Numbers) -> Numbers:
    """The start of each record; checks that every batch ends with its last record."""
    starts = np.empty(int(first_row[-1]), np.int64)
    live = np.flatnonzero(bodies.count)
    at = bodies.start[live]
    step = 0
    while live.size > _FEW_BATCHES:
        starts[first_row[live] + step] = at
        length, length_end, broken = read_varints(data, at, 32)
        at = length_end + length
        wrong = (length < 0) | (at > bodies.end[live])
        if broken is not None:
            wrong |= broken
        step += 1
        is_last = bodies.count[live] == step
        wrong |= is_last & (at != bodies.end[live])
        if wrong.any():
            _reject(window, bodies.first_batch + int(live[np.argmax(wrong)]), bodies.max_headers)
        if is_last.any():
            live, at = live[~is_last], at[~is_last]
    for batch, position in zip(live.tolist(), at.tolist(), strict=True):
        row, end = int(first_row[batch]) + step, int(first_row[batch + 1])
        try:
            starts[row:end] = record_starts(bodies.data, position, end - row, int(bodies.end[batch]))
        except (IndexError, ValueError):
            _reject(window, bodies.first_batch + batch, bodies.max_headers)
    return starts


def _broken_headers(raw: bytes, data: Bytes, headers: Varints, ends: Numbers) -> Flags:
    """Check the headers of all records, one of each record in a step."""
    broken = np.zeros(ends.size, np.bool_)
    rows = np.flatnonzero(headers.values)
    at, remaining = headers.end[rows], headers.values[rows]
    while rows.size > _FEW_RECORDS:
        key = read_varints(data, at, 32)
        value = read_varints(data, key.end + np.maximum(key.values, 0), 32)
        at = value.end + np.maximum(value.values, 0)
        remaining = remaining - 1
        wrong = (key.values < 0) | (at > ends[rows]) | ((remaining == 0) & (at != ends[rows]))
        for field in (key, value):
            if field.broken is not None:
                wrong |= field.broken
        broken[rows[wrong]] = True
        continues = (remaining > 0) & ~wrong
        rows, at, remaining = rows[continues], at[continues], remaining[continues]
    for row, position, count in zip(rows.tolist(), at.tolist(), remaining.tolist(), strict=True):
        broken[row] = not _are_headers(raw, position, int(ends[row]), count)
    return broken


def _are_headers(data: bytes, at: int, end: int, count: int) -> bool:
    try:
        return end_of_headers(data, at, end, count) == end
    except (IndexError, ValueError):
        return False


def _reject(window: BatchWindow, batch: int, max_headers: int) -> NoReturn:
    """Raise the error of the plain reader for a batch that the columns rejected."""
    at, size = int(window.at[batch]), int(window.size[batch])
    reason = "the offsets of the records are not in the range of the header"
    try:
        records = memoryview(window.data)[at : at + size]
        for _ in iter_checked(records, max_bytes=MAX_DECOMPRESSED_BYTES, max_headers=max_headers):
            continue
    except MalformedRecords as error:
        reason = str(error)
    raise CorruptBatch(window.position + at, reason)
