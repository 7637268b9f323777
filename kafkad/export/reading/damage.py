"""A piece of a segment file that is no batch as it was written: where does it end, and by which offset is it known?

It ends where its own header says, if a whole batch begins there, else at the next place of the index where one does,
else with the segment. No other field of it is believed, and its offset only where it fits to what follows.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafkad.core.log.records.batch import HEADER_SIZE, CorruptBatch, has_valid_crc, read_header_within
from kafkad.core.log.records.batch_scan import ReadAt


class Damaged(NamedTuple):
    """`offset` stands for all offsets that were in it; `end` is the first one behind it."""

    offset: int
    end: int
    data: bytes
    reason: str
    is_whole: bool = False
    """The batch is as it was written, but its records can't be read."""

    def __str__(self) -> str:
        if self.is_whole:
            return f"the records of a batch can't be read: {self.reason}; it ends at offset {self.end - 1}"
        return f"a record batch is damaged, {self.reason}; it ends at offset {self.end - 1}"


class Piece(NamedTuple):
    """What is damaged, and the byte behind it."""

    damaged: Damaged
    behind: int


def base_of_whole(read_at: ReadAt, position: int, size: int) -> int | None:
    """The first offset of the batch at `position` of a file of this size, if it is as it was written."""
    try:
        header = read_header_within(read_at(HEADER_SIZE, position), position, size)
    except CorruptBatch:
        return None
    data = read_at(header.size, position)
    return header.base_offset if len(data) == header.size and has_valid_crc(memoryview(data), 0, header) else None


def piece_at(
    read_at: ReadAt, error: CorruptBatch, size: int, places: Iterable[int], lowest: int, following: int
) -> Piece:
    """The one that `error` tells of. `places` are those of the index; the segment begins with the offset `lowest`, and
    what comes behind it with `following`.
    """
    position = error.position
    behind, end = size, following
    for place in (*_named_by_header(read_at, position, size), *(each for each in places if each > position)):
        base = base_of_whole(read_at, place, size)
        if base is not None:
            behind, end = place, base
            break
    data = read_at(behind - position, position)
    claimed = int.from_bytes(data[:8], "big", signed=True)
    offset = claimed if lowest <= claimed < end else end - 1
    return Piece(Damaged(offset, end, data, str(error)), behind)


def _named_by_header(read_at: ReadAt, position: int, size: int) -> list[int]:
    try:
        return [position + read_header_within(read_at(HEADER_SIZE, position), position, size).size]
    except CorruptBatch:
        return []
