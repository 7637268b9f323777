"""Rewrites batches that lose some of their records (MemoryRecords.filterTo).

A batch that keeps all records is copied unchanged, still compressed. Otherwise offsets and producer fields of the
header stay, so retained records are copied with their deltas. Checksum and largest timestamp are computed again; the
codec stays. Only a batch that gets a delete horizon has its timestamps encoded again, because the horizon replaces the
base timestamp (KIP-534).
"""

from dataclasses import dataclass

import numpy as np
from crc32c import crc32c

from kafkad.core.cleaning.batch_retention import BatchRetention
from kafkad.core.columns.arrays import Flags, Headers, Numbers
from kafkad.core.columns.records import RecordColumns
from kafkad.core.log.records.batch import (
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
)
from kafkad.core.log.records.compression import compress
from kafkad.core.log.records.varint import append_varint
from kafkad.core.types import NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class RewrittenBatches:
    """The new bytes of some batches: `pieces` one after the other, and for each batch a row of the other lists."""

    pieces: list[bytes | memoryview]
    sizes: list[int]
    last_offsets: list[int]
    max_timestamps: list[int]
    records: int


def rewrite(records: RecordColumns, retained: Flags, retention: BatchRetention, *, horizon_ms: int) -> RewrittenBatches:
    """Rewrite the batches of `records`. `horizon_ms` is the delete horizon of batches that get one now."""
    window = records.window
    some = slice(records.first_batch, records.end_batch)
    counted = np.concatenate((np.zeros(1, np.int64), np.cumsum(retained)))[records.first_row]
    kept = np.diff(counted)
    tombstones = np.concatenate((np.zeros(1, np.int64), np.cumsum(retained & (records.value_size < 0))))
    has_tombstones = np.diff(tombstones[records.first_row]) > 0
    gets_horizon = (kept > 0) & (has_tombstones | retention.is_free_marker[some])
    gets_horizon &= ~window.has_flag(DELETE_HORIZON_FLAG)[some]
    is_whole = (kept > 0) & (kept == window.column("records_count")[some]) & ~gets_horizon
    numbers = np.flatnonzero((kept > 0) | retention.stays_empty[some])
    headers = window.headers[some][numbers]
    changed = np.flatnonzero(~is_whole[numbers])
    pieces = _as_they_lie(records, numbers)
    if changed.size:
        rows = numbers[changed]
        new = _Rewriting(records, retained, rows, kept[rows], headers[changed])
        fronts, bodies = new.written(gets_horizon[rows], horizon_ms)
        headers[changed] = new.headers
        for place, front, body in zip(changed.tolist(), fronts, bodies, strict=True):
            pieces[2 * place], pieces[2 * place + 1] = front, body
    return RewrittenBatches(
        pieces=[piece for piece in pieces if piece],
        sizes=(headers["batch_length"].astype(np.int64) + LOG_OVERHEAD).tolist(),
        last_offsets=(headers["base_offset"].astype(np.int64) + headers["last_offset_delta"]).tolist(),
        max_timestamps=_largest_timestamps(headers).tolist(),
        records=int(counted[-1]),
    )


def _as_they_lie(records: RecordColumns, numbers: Numbers) -> list[bytes | memoryview]:
    """Two pieces for each batch: its bytes, and an empty one."""
    window = records.window
    view = memoryview(window.data)
    places = window.at[records.first_batch + numbers]
    ends = places + window.size[records.first_batch + numbers]
    pieces: list[bytes | memoryview] = [b""] * (2 * numbers.size)
    pieces[::2] = [view[at:end] for at, end in zip(places.tolist(), ends.tolist(), strict=True)]
    return pieces


def _largest_timestamps(headers: Headers) -> Numbers:
    """Equal to `BatchHeader.largest_timestamp`."""
    largest = headers["max_timestamp"].astype(np.int64)
    largest[(largest == 0) & (headers["base_timestamp"] == NO_TIMESTAMP)] = NO_TIMESTAMP
    return largest


class _Rewriting:
    """Batches of `records` that lose records or get a delete horizon, with their `headers`."""

    def __init__(
        self, records: RecordColumns, retained: Flags, numbers: Numbers, kept: Numbers, headers: Headers
    ) -> None:
        self.headers = headers
        self._records = records
        self._rows = rows = np.flatnonzero(retained)
        self._kept = kept
        batch = records.batch[rows]
        self._first_row = np.searchsorted(batch, records.first_batch + numbers)
        """The index of each batch's first retained record in `_rows`."""
        is_first = np.ones(rows.size, np.bool_)
        is_first[1:] = (np.diff(rows) > 1) | (np.diff(batch) > 0)
        firsts = np.flatnonzero(is_first)
        view = memoryview(records.data)
        starts = records.start[rows[firsts]].tolist()
        ends = records.end[rows[np.append(firsts[1:], rows.size) - 1]].tolist() if rows.size else []
        self._runs = [view[start:end] for start, end in zip(starts, ends, strict=True)]
        """The retained records, as runs of bytes."""
        self._first_run = np.searchsorted(firsts, self._first_row).tolist()
        self._end_run = np.searchsorted(firsts, self._first_row + kept).tolist()

    def written(self, gets_horizon: Flags, horizon_ms: int) -> tuple[list[bytes], list[bytes]]:
        """The header and the records of each batch."""
        headers, is_empty = self.headers, self._kept == 0
        codecs = np.where(is_empty, 0, headers["attributes"] & CODEC_MASK).tolist()
        bodies = [b"".join(self._runs[first:end]) for first, end in zip(self._first_run, self._end_run, strict=True)]
        for place in np.flatnonzero(gets_horizon).tolist():
            bodies[place] = self._with_base(place, horizon_ms)
        bodies = [compress(codec, body) if codec else body for codec, body in zip(codecs, bodies, strict=True)]
        headers["records_count"] = self._kept
        headers["batch_length"] = np.array([len(body) for body in bodies], np.int64) + (HEADER_SIZE - LOG_OVERHEAD)
        self._set_timestamps()
        headers["attributes"][gets_horizon] |= DELETE_HORIZON_FLAG
        headers["base_timestamp"][gets_horizon] = horizon_ms
        # An empty batch consists of its header, without codec and delete horizon.
        headers["attributes"][is_empty] &= ~(CODEC_MASK | DELETE_HORIZON_FLAG)
        headers["base_timestamp"][is_empty] = NO_TIMESTAMP
        headers["crc"] = self._checksums(bodies)
        fronts = headers.tobytes()
        return [fronts[at : at + HEADER_SIZE] for at in range(0, len(fronts), HEADER_SIZE)], bodies

    def _set_timestamps(self) -> None:
        """The largest timestamp of a batch becomes that of its retained records."""
        is_set = (self._kept > 0) & ((self.headers["attributes"] & LOG_APPEND_TIME_FLAG) == 0)
        places = np.flatnonzero(is_set)
        if places.size:
            first, kept = self._first_row[places], self._kept[places]
            # Only the rows of these batches: rows between two of them belong to neither.
            bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept)))[:-1]
            rows = np.repeat(first - bounds, kept) + np.arange(int(kept.sum()))
            timestamps = self._records.timestamp[self._rows[rows]]
            self.headers["max_timestamp"][places] = np.maximum.reduceat(timestamps, bounds)

    def _checksums(self, bodies: list[bytes]) -> list[int]:
        fronts = memoryview(self.headers.tobytes())
        covered = range(CRC_START, len(fronts), HEADER_SIZE)
        end = HEADER_SIZE - CRC_START
        return [crc32c(body, crc32c(fronts[at : at + end])) for at, body in zip(covered, bodies, strict=True)]

    def _with_base(self, place: int, base_timestamp: int) -> bytes:
        records = self._records
        first = int(self._first_row[place])
        rows = self._rows[first : first + int(self._kept[place])]
        out = bytearray()
        deltas = (records.timestamp[rows] - base_timestamp).tolist()
        places, ends = records.fields_at[rows].tolist(), records.end[rows].tolist()
        for delta, at, end in zip(deltas, places, ends, strict=True):
            front = bytearray(b"\0")
            append_varint(front, delta)
            append_varint(out, len(front) + end - at)
            out += front
            out += records.data[at:end]
        return bytes(out)
