"""Where in a segment file do the batches of a range begin and end? By its index, whose entries are hints, as the broker
writes them later than the log, and by the headers behind them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header_within
from kafkad.core.log.records.batch_scan import ReadAt
from kafkad.core.log.segments.index import OFFSET_ENTRY
from kafkad.export.reading.damage import base_of_whole

_BASE_OFFSET_SIZE = 8


class IndexEntry(NamedTuple):
    """The last offset of a batch, and where it begins."""

    offset: int
    position: int


def parse_index(content: bytes, base: int, size: int) -> list[IndexEntry]:
    """The entries that can be right, of a segment of this size."""
    found: list[IndexEntry] = []
    for relative, position in OFFSET_ENTRY.iter_unpack(content[: len(content) // 8 * 8]):
        if found and (relative <= found[-1].offset - base or position <= found[-1].position):
            break
        if relative < 0 or not 0 <= position < size:
            break
        found.append(IndexEntry(base + relative, position))
    return found


def position_of(read_at: ReadAt, index: Sequence[IndexEntry], offset: int, size: int) -> int:
    """Where the batch with `offset` begins, or the first one behind it; `size` if there is none."""
    position = max((entry.position for entry in index if entry.offset <= offset), default=0)
    while (header := _header(read_at, position, size)) is not None and header.last_offset < offset:
        position += header.size
    return position


def whole_before(read_at: ReadAt, index: Sequence[IndexEntry], offset: int, size: int) -> int:
    """Where a whole batch begins that is not behind the one with `offset`: the last one that the index names."""
    before = [entry.position for entry in reversed(index) if entry.offset <= offset]
    return next((each for each in before if base_of_whole(read_at, each, size) is not None), 0)


def end_in_sealed(read_at: ReadAt, index: Sequence[IndexEntry], end: int, size: int) -> int:
    """Where a batch begins before which all offsets below `end` are, as the index says; else the end of the file."""
    behind = [entry.position for entry in index if entry.offset >= end][1:]
    return next((each for each in behind if base_of_whole(read_at, each, size) is not None), size)


def end_in_active(read_at: ReadAt, index: Sequence[IndexEntry], end: int, size: int) -> int:
    """Where the batches end that begin below `end`: what is behind may not be whole yet. Raises `CorruptBatch`."""
    position = max((entry.position for entry in index if entry.offset < end), default=0)
    while (header := _header(read_at, position, size)) is not None and header.base_offset < end:
        position += header.size
    _check_behind(read_at, position, end, size)
    return position


def reaches(read_at: ReadAt, index: Sequence[IndexEntry], end: int, size: int) -> bool:
    """Whether the batches of the file go up to `end`. Where they can't be followed, reading them says why."""
    position = max((entry.position for entry in index if entry.offset < end), default=0)
    try:
        while (header := _header(read_at, position, size)) is not None:
            if header.last_offset + 1 >= end:
                return True
            position += header.size
    except CorruptBatch:
        return True
    return size - position >= _BASE_OFFSET_SIZE


def _check_behind(read_at: ReadAt, position: int, end: int, size: int) -> None:
    """What is not read begins at `end` or behind it: a length or offset that is damaged would hide all that follow."""
    bases: list[int] = []
    at = position
    while len(bases) < 2 and size - at >= _BASE_OFFSET_SIZE:
        bases.append(int.from_bytes(read_at(_BASE_OFFSET_SIZE, at), "big", signed=True))
        header = _header(read_at, at, size)
        if header is None:
            break
        at += header.size
    if bases and (bases[0] < end or bases != sorted(bases)):
        raise CorruptBatch(position, f"a batch at offset {bases[0]} is not whole, or has a wrong offset")


def _header(read_at: ReadAt, position: int, size: int) -> BatchHeader | None:
    """None at the end of the file, or where its last batch is not whole. Raises `CorruptBatch`."""
    if position + HEADER_SIZE > size:
        return None
    try:
        return read_header_within(read_at(HEADER_SIZE, position), position, size)
    except CorruptBatch as error:
        if "the file" in error.reason:
            return None
        raise
