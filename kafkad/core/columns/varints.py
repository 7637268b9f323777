"""How is a column of varints read? As in core/log/records/varint.py, but all rows at once.

A number that does not end in time, or has too many bits, is marked as broken. Reading beyond the end of the bytes
repeats the last one: whoever compares where a record ends with where it should end finds that out.
"""

from typing import NamedTuple

import numpy as np

from kafkad.core.columns.arrays import Bytes, Flags, Numbers, Unsigned

_MOST_BYTES = {32: 5, 64: 10}
_LAST_OF_64_BITS = 9
_FEW = 4
"""If fewer than one row in this many has a second byte, only these rows are read again."""


class Varints(NamedTuple):
    """`behind` is the place after each number; `broken` is None where all are sound."""

    values: Numbers
    behind: Numbers
    broken: Flags | None


def read_varints(data: Bytes, at: Numbers, bits: int) -> Varints:
    """The numbers of at most `bits` (32 or 64) that begin at the places `at`."""
    first = data.take(at, mode="clip")
    behind = at + 1
    rows = np.flatnonzero(first > 0x7F)
    if rows.size == 0:
        small = first.astype(np.int64)
        return Varints((small >> 1) ^ -(small & 1), behind, None)
    zigzag = (first & 0x7F).astype(np.uint64)
    rows = _second_bytes(data, at, zigzag, behind, rows)
    broken: Flags | None = None
    for number in range(2, _MOST_BYTES[bits]):
        if rows.size == 0:
            break
        byte = data.take(at[rows] + number, mode="clip")
        zigzag[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
        behind[rows] += 1
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
    return Varints(values, behind, broken)


def _second_bytes(data: Bytes, at: Numbers, zigzag: Unsigned, behind: Numbers, rows: Numbers) -> Numbers:
    """Add the second bytes of `rows`; returns the rows that go on."""
    if rows.size * _FEW < at.size:
        byte = data.take(at[rows] + 1, mode="clip")
        zigzag[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7)
        behind[rows] += 1
        return rows[byte > 0x7F]
    has_second = np.zeros(at.size, np.bool_)
    has_second[rows] = True
    byte = data.take(behind, mode="clip")
    byte *= has_second
    zigzag |= (byte & 0x7F).astype(np.uint64) << np.uint64(7)
    behind += has_second
    return np.flatnonzero(byte > 0x7F)


def _marked(broken: Flags | None, count: int, rows: Numbers) -> Flags:
    marks = np.zeros(count, np.bool_) if broken is None else broken
    marks[rows] = True
    return marks
