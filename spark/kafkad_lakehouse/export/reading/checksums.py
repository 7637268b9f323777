"""Checksums of the records in Arrow batches, to compare the records of a table with the log.

A checksum covers key, value, headers and timestamp, not the offset: records are compared by offset.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from kafkad.core.columns.arrays import Numbers, Unsigned
from kafkad_lakehouse.export.values.columns import TIMESTAMP

COLUMNS = ("key", "value", "headers", "timestamp", "timestampType")
_FACTORS = tuple(np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
"""Odd factors, so that a multiplication loses no bits. They detect values that moved to another column."""
_NULL = 1 << 32
"""Larger than any CRC-32C."""


def checksums(batch: pa.RecordBatch) -> Numbers:
    """The checksum of each row. Null and empty headers are equal: another engine may have written the files."""
    times = batch.column("timestamp").cast(TIMESTAMP).cast(pa.int64()).fill_null(-1)
    total = _mixed(
        batch.num_rows,
        [
            _of_bytes(batch.column("key")),
            _of_bytes(batch.column("value")),
            _of_headers(batch.column("headers")),
            times.to_numpy(zero_copy_only=False).astype(np.uint64),
            batch.column("timestampType").fill_null(-1).to_numpy(zero_copy_only=False).astype(np.uint64),
        ],
    )
    return total.view(np.int64)


def _mixed(rows: int, columns: Iterable[Unsigned]) -> Unsigned:
    total = np.zeros(rows, np.uint64)
    for column in columns:
        mixed = (total ^ column) * _FACTORS[0]
        total = (mixed ^ (mixed >> np.uint64(29))) * _FACTORS[1]
    return total


def _of_bytes(values: pa.Array) -> Unsigned:
    sums = (_NULL if each is None else crc32c(each) for each in values.cast(pa.binary()).to_pylist())
    return np.fromiter(sums, np.uint64, len(values))


def _of_headers(headers: pa.Array) -> Unsigned:
    """The checksum of the headers of each row, which depends on their order."""
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(counts)
    flat = headers.flatten()
    keys, values = flat.flatten()
    number = np.arange(len(flat)) - np.repeat(ends - counts, counts)
    each = _mixed(len(flat), [_of_bytes(keys), _of_bytes(values), number.astype(np.uint64)])
    before = np.concatenate((np.zeros(1, np.uint64), np.cumsum(each)))
    return before[ends] - before[ends - counts] + counts.astype(np.uint64) * _FACTORS[2]
