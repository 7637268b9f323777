"""How does a batch look that has lost some of its records? (MemoryRecords.filterTo)

A batch that keeps all of them is copied as it lies, still compressed. Otherwise offsets and producer fields of the
header stay, so the records that stay are copied as they are: their deltas remain true. Checksum and largest timestamp
are made anew, the codec is the same. Only a batch that gets a delete horizon has its timestamps encoded anew, because
the horizon takes the base timestamp's place (KIP-534).
"""

from dataclasses import dataclass, field

import numpy as np

from kafkad.core.cleaning.batch_retention import BatchRetention
from kafkad.core.columns.arrays import Flags, Numbers
from kafkad.core.columns.records import RecordColumns
from kafkad.core.log.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    read_header,
)
from kafkad.core.log.records.compression import compress
from kafkad.core.log.records.record import seal_batch
from kafkad.core.log.records.varint import append_varint
from kafkad.core.types import NO_TIMESTAMP


@dataclass(slots=True)
class RewrittenBatches:
    """What is written of some batches: `pieces` one after the other, and for each batch a row of the other lists."""

    pieces: list[bytes | memoryview] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    last_offsets: list[int] = field(default_factory=list)
    max_timestamps: list[int] = field(default_factory=list)
    records: int = 0

    def add(self, batch: bytes | memoryview, header: BatchHeader) -> None:
        self.pieces.append(batch)
        self.sizes.append(len(batch))
        self.last_offsets.append(header.last_offset)
        self.max_timestamps.append(header.largest_timestamp)


def rewrite(
    records: RecordColumns, retained: Flags, retention: BatchRetention, *, horizon_ms: int
) -> RewrittenBatches:
    """The batches of `records`. `horizon_ms` is the delete horizon of batches that get one now."""
    window = records.window
    some = slice(records.first_batch, records.end_batch)
    counted = np.concatenate((np.zeros(1, np.int64), np.cumsum(retained)))[records.first_row]
    kept = np.diff(counted)
    tombstones = np.concatenate((np.zeros(1, np.int64), np.cumsum(retained & (records.value_size < 0))))
    has_tombstones = np.diff(tombstones[records.first_row]) > 0
    gets_horizon = (kept > 0) & (has_tombstones | retention.is_free_marker[some])
    gets_horizon &= ~window.has_flag(DELETE_HORIZON_FLAG)[some]
    is_whole = (kept > 0) & (kept == window.column("records_count")[some]) & ~gets_horizon
    stays = (kept > 0) | retention.stays_empty[some]
    written = RewrittenBatches(records=int(counted[-1]))
    runs = _Runs(records, retained)
    view = memoryview(window.data)
    numbers = np.flatnonzero(stays)
    whole, horizon, count = is_whole[numbers].tolist(), gets_horizon[numbers].tolist(), kept[numbers].tolist()
    for number, as_it_lies, gets, left in zip(numbers.tolist(), whole, horizon, count, strict=True):
        at = int(window.at[records.first_batch + number])
        header = read_header(window.data, at)
        if as_it_lies:
            written.add(view[at : at + header.size], header)
        elif left == 0:
            written.add(*_emptied(header))
        else:
            written.add(*runs.rewritten(header, number, horizon_ms if gets else None))
    return written


def _emptied(header: BatchHeader) -> tuple[bytes, BatchHeader]:
    """Only the header stays, without codec and delete horizon."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    empty = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0)
    return seal_batch(empty, b""), empty


class _Runs:
    """The records that stay, as runs of bytes, batch by batch."""

    def __init__(self, records: RecordColumns, retained: Flags) -> None:
        self._records = records
        self._rows = rows = np.flatnonzero(retained)
        batches = np.arange(records.first_batch, records.end_batch + 1)
        batch = records.batch[rows]
        self._first_row = np.searchsorted(batch, batches).tolist()
        """The first of each batch in the rows that stay, and at last their number."""
        is_first = np.ones(rows.size, np.bool_)
        is_first[1:] = (np.diff(rows) > 1) | (np.diff(batch) > 0)
        firsts = np.flatnonzero(is_first)
        self._starts = records.start[rows[firsts]].tolist()
        self._ends = records.end[rows[np.append(firsts[1:], rows.size) - 1]].tolist() if rows.size else []
        self._first_run = np.searchsorted(batch[firsts], batches).tolist()
        self._view = memoryview(records.data)

    def rewritten(self, header: BatchHeader, number: int, horizon_ms: int | None) -> tuple[bytes, BatchHeader]:
        """Batch `number` of the columns with the records that stay."""
        first, end = self._first_row[number], self._first_row[number + 1]
        rows = self._rows[first:end]
        changes = {"records_count": end - first}
        if not header.attributes & LOG_APPEND_TIME_FLAG:
            changes["max_timestamp"] = int(self._records.timestamp[rows].max())
        if horizon_ms is None:
            body = self._bytes_of(number)
        else:
            changes |= {"attributes": header.attributes | DELETE_HORIZON_FLAG, "base_timestamp": horizon_ms}
            body = self._with_base(rows, horizon_ms)
        changed = header._replace(**changes)
        return seal_batch(changed, compress(header.codec_bits, body)), changed

    def _bytes_of(self, number: int) -> bytes:
        some = slice(self._first_run[number], self._first_run[number + 1])
        view = self._view
        return b"".join([view[start:end] for start, end in zip(self._starts[some], self._ends[some], strict=True)])

    def _with_base(self, rows: Numbers, base_timestamp: int) -> bytes:
        records = self._records
        out = bytearray()
        deltas = (records.timestamp[rows] - base_timestamp).tolist()
        places, ends = records.fields_at[rows].tolist(), records.end[rows].tolist()
        for delta, place, end in zip(deltas, places, ends, strict=True):
            front = bytearray(b"\0")
            append_varint(front, delta)
            append_varint(out, len(front) + end - place)
            out += front
            out += records.data[place:end]
        return bytes(out)


