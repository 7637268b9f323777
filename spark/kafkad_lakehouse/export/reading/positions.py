"""The positions of a range in a segment file.

The entries of the index are only hints: the broker writes them after the log, and they may be damaged. The headers of
the batches after an entry give the exact position.
"""

from collections.abc import Sequence

from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header_within
from kafkad.core.log.records.batch_scan import ReadAt
from kafkad.core.log.segments.index import OFFSET_ENTRY, OffsetPosition
from kafkad.core.log.segments.indexed_batches import contradiction
from kafkad_lakehouse.export.reading.damage import base_of_whole

_BASE_OFFSET_SIZE = 8


def parse_index(content: bytes, base: int, size: int) -> list[OffsetPosition]:
    """The plausible entries for a segment of `size` bytes."""
    found: list[OffsetPosition] = []
    for relative, position in OFFSET_ENTRY.iter_unpack(content[: len(content) // 8 * 8]):
        if found and (relative <= found[-1].offset - base or position <= found[-1].position):
            break
        if relative < 0 or not 0 <= position < size:
            break
        found.append(OffsetPosition(base + relative, position))
    return found


def position_of(read_at: ReadAt, index: Sequence[OffsetPosition], offset: int, size: int) -> int:
    """The position of the batch with `offset`, or of the next batch; `size` if there is none."""
    position = _start_below(read_at, index, offset + 1, size)
    while (header := _header(read_at, position, size)) is not None and header.last_offset < offset:
        position += header.size
    return position


def whole_before(read_at: ReadAt, index: Sequence[OffsetPosition], offset: int, size: int) -> int:
    """The last position in the index with an intact batch that does not begin after `offset`; 0 if there is none."""
    for entry in reversed(index):
        if entry.offset <= offset:
            base = base_of_whole(read_at, entry.position, size)
            if base is not None and base <= offset:
                return entry.position
    return 0


def end_in_sealed(read_at: ReadAt, index: Sequence[OffsetPosition], end: int, size: int) -> int:
    """A position in the index after all offsets below `end`, at an intact batch; else the end of the file."""
    for entry in [entry for entry in index if entry.offset >= end][1:]:
        base = base_of_whole(read_at, entry.position, size)
        if base is not None and base >= end:
            return entry.position
    return size


def end_in_active(read_at: ReadAt, index: Sequence[OffsetPosition], end: int, size: int) -> int:
    """The end of the last batch that begins below `end`: later batches may be incomplete. Raises `CorruptBatch`."""
    position = _start_below(read_at, index, end, size)
    while (header := _header(read_at, position, size)) is not None and header.base_offset < end:
        position += header.size
    _check_behind(read_at, position, end, size)
    return position


def reaches(read_at: ReadAt, index: Sequence[OffsetPosition], end: int, size: int) -> bool:
    """Whether the batches of the file reach `end`. True for a corrupt batch, which is reported when it is read."""
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
    """The position of the last correct entry with an offset below `end`; 0 if there is none."""
    for entry in reversed(index):
        if entry.offset < end and not contradiction(read_at, 0, entry, size):
            return entry.position
    return 0


def _check_behind(read_at: ReadAt, position: int, end: int, size: int) -> None:
    """Check that the unread batches begin at or after `end`: a damaged length or offset would hide later batches."""
    bases: list[int] = []
    at = position
    while len(bases) < 2 and size - at >= _BASE_OFFSET_SIZE:
        bases.append(int.from_bytes(read_at(_BASE_OFFSET_SIZE, at), "big", signed=True))
        header = _header(read_at, at, size)
        if header is None:
            break
        at += header.size
    if bases and (bases[0] < end or bases != sorted(bases)):
        raise CorruptBatch(position, f"a batch at offset {bases[0]} is incomplete, or has a wrong offset")


def _header(read_at: ReadAt, position: int, size: int) -> BatchHeader | None:
    """The header at `position`; None at the end of the file or for an incomplete last batch. Raises `CorruptBatch`."""
    if position + HEADER_SIZE > size:
        return None
    try:
        return read_header_within(read_at(HEADER_SIZE, position), position, size)
    except CorruptBatch as error:
        if "the file" in error.reason:
            return None
        raise
