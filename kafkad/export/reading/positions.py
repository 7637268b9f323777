"""Where in a segment file do the batches of a range begin and end? By its index, whose entries are hints, as the broker
writes them later than the log, and a disk may have damaged them; and by the headers behind them.
"""

from collections.abc import Sequence

from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header_within
from kafkad.core.log.records.batch_scan import ReadAt
from kafkad.core.log.segments.index import OFFSET_ENTRY, OffsetPosition
from kafkad.core.log.segments.indexed_batches import contradiction
from kafkad.export.reading.damage import base_of_whole

_BASE_OFFSET_SIZE = 8


def parse_index(content: bytes, base: int, size: int) -> list[OffsetPosition]:
    """The entries that can be right, of a segment of this size."""
    found: list[OffsetPosition] = []
    for relative, position in OFFSET_ENTRY.iter_unpack(content[: len(content) // 8 * 8]):
        if found and (relative <= found[-1].offset - base or position <= found[-1].position):
            break
        if relative < 0 or not 0 <= position < size:
            break
        found.append(OffsetPosition(base + relative, position))
    return found


def position_of(read_at: ReadAt, index: Sequence[OffsetPosition], offset: int, size: int) -> int:
    """Where the batch with `offset` begins, or the first one behind it; `size` if there is none."""
    position = _start_below(read_at, index, offset + 1, size)
    while (header := _header(read_at, position, size)) is not None and header.last_offset < offset:
        position += header.size
    return position


def whole_before(read_at: ReadAt, index: Sequence[OffsetPosition], offset: int, size: int) -> int:
    """Where a whole batch begins that is not behind the one with `offset`: the last one that the index names."""
    for entry in reversed(index):
        if entry.offset <= offset:
            base = base_of_whole(read_at, entry.position, size)
            if base is not None and base <= offset:
                return entry.position
    return 0


def end_in_sealed(read_at: ReadAt, index: Sequence[OffsetPosition], end: int, size: int) -> int:
    """Where a batch begins before which all offsets below `end` are, as the index says; else the end of the file."""
    for entry in [entry for entry in index if entry.offset >= end][1:]:
        base = base_of_whole(read_at, entry.position, size)
        if base is not None and base >= end:
            return entry.position
    return size


def end_in_active(read_at: ReadAt, index: Sequence[OffsetPosition], end: int, size: int) -> int:
    """Where the batches end that begin below `end`: what is behind may not be whole yet. Raises `CorruptBatch`."""
    position = _start_below(read_at, index, end, size)
    while (header := _header(read_at, position, size)) is not None and header.base_offset < end:
        position += header.size
    _check_behind(read_at, position, end, size)
    return position


def reaches(read_at: ReadAt, index: Sequence[OffsetPosition], end: int, size: int) -> bool:
    """Whether the batches of the file go up to `end`. Where they can't be followed, reading them says why."""
    position = _start_below(read_at, index, end, size)
    try:
        while (header := _header(read_at, position, size)) is not None:
            if header.last_offset + 1 >= end:
                return True
            position += header.size
    except CorruptBatch:
        return True
    return size - position >= _BASE_OFFSET_SIZE


def _start_below(read_at: ReadAt, index: Sequence[OffsetPosition], end: int, size: int) -> int:
    """Where the batch of the last right entry with an offset below `end` begins; 0 if there is none."""
    for entry in reversed(index):
        if entry.offset < end and not contradiction(read_at, 0, entry, size):
            return entry.position
    return 0


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
