"""A number for each record of Arrow batches, by which the records of a table are compared with those of the log.

It is of key, value, headers and time. Offsets name the records, so they are not in it.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from kafkad.core.columns.arrays import Numbers, Unsigned
from kafkad.export.values.columns import TIMESTAMP

COLUMNS = ("key", "value", "headers", "timestamp", "timestampType")
_FACTORS = tuple(np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
"""Odd: a multiplication by one of them loses nothing. So a value that has moved to another column is noticed."""
_NULL = 1 << 32
"""No checksum has it."""


def checksums(batch: pa.RecordBatch) -> Numbers:
    """Of each row. Where another engine has written the files, no headers and null are the same."""
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
    """Of all headers of each row, in their order."""
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(counts)
    flat = headers.flatten()
    keys, values = flat.flatten()
    number = np.arange(len(flat)) - np.repeat(ends - counts, counts)
    each = _mixed(len(flat), [_of_bytes(keys), _of_bytes(values), number.astype(np.uint64)])
    before = np.concatenate((np.zeros(1, np.uint64), np.cumsum(each)))
    return before[ends] - before[ends - counts] + counts.astype(np.uint64) * _FACTORS[2]
