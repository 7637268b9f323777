"""How is a column of varints read? As in core/log/records/varint.py, for all rows at once.

A number that is too long, or has too many bits, is marked as broken. A read beyond the end of the bytes repeats the
last byte: the comparison of actual and expected ends of records detects that.
"""

from typing import NamedTuple

import numpy as np

from kafkad.core.columns.arrays import Bytes, Flags, Numbers, Unsigned

_MAX_BYTES = {32: 5, 64: 10}
_LAST_OF_64_BITS = 9
_FEW = 4
"""If fewer than one row in this many has a second byte, only these rows are read again."""


class Varints(NamedTuple):
    """`end` is the position after each number; `broken` is None if all are valid."""

    values: Numbers
    end: Numbers
    broken: Flags | None


def read_varints(data: Bytes, at: Numbers, bits: int) -> Varints:
    """The numbers of at most `bits` (32 or 64) at the positions `at`."""
    first = data.take(at, mode="clip")
    end = at + 1
    rows = np.flatnonzero(first > 0x7F)
    if rows.size == 0:
        small = first.astype(np.int64)
        return Varints((small >> 1) ^ -(small & 1), end, None)
    zigzag = (first & 0x7F).astype(np.uint64)
    rows = _second_bytes(data, at, zigzag, end, rows)
    broken: Flags | None = None
    for number in range(2, _MAX_BYTES[bits]):
        if rows.size == 0:
            break
        byte = data.take(at[rows] + number, mode="clip")
        zigzag[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
        end[rows] += 1
        if number == _LAST_OF_64_BITS and (byte > 1).any():
            broken = _marked(broken, at.size, rows[byte > 1])
        rows = rows[byte > 0x7F]
    if rows.size:
        broken = _marked(broken, at.size, rows)
    values = (zigzag >> np.uint64(1)).astype(np.int64) ^ -(zigzag & np.uint64(1)).astype(np.int64)
    if bits == 32:
        too_large = (values < -0x80000000) | (values > 0x7FFFFFFF)
        if too_large.any():
            broken = _marked(broken, at.size, np.flatnonzero(too_large))
    return Varints(values, end, broken)


def _second_bytes(data: Bytes, at: Numbers, zigzag: Unsigned, end: Numbers, rows: Numbers) -> Numbers:
    """Add the second bytes of `rows`; returns the rows with more bytes."""
    if rows.size * _FEW < at.size:
        byte = data.take(at[rows] + 1, mode="clip")
        zigzag[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7)
        end[rows] += 1
        return rows[byte > 0x7F]
    has_second = np.zeros(at.size, np.bool_)
    has_second[rows] = True
    byte = data.take(end, mode="clip")
    byte *= has_second
    zigzag |= (byte & 0x7F).astype(np.uint64) << np.uint64(7)
    end += has_second
    return np.flatnonzero(byte > 0x7F)


def _marked(broken: Flags | None, count: int, rows: Numbers) -> Flags:
    marks = np.zeros(count, np.bool_) if broken is None else broken
    marks[rows] = True
    return marks
