"""The end and the offset of a damaged piece of a segment file.

The piece ends at the position in its own header if an intact batch begins there, otherwise at the next position in the
index with an intact batch, otherwise at the end of the segment. Of its other fields only the offset is used, if the
offset is consistent with the next batch.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafkad.core.log.records.batch import HEADER_SIZE, CorruptBatch, has_valid_crc, read_header_within
from kafkad.core.log.records.batch_scan import ReadAt


class Damaged(NamedTuple):
    """`offset` represents all offsets of the damaged piece; `end` is the first offset after the piece."""

    offset: int
    end: int
    data: bytes
    reason: str
    is_whole: bool = False
    """The CRC of the batch is valid, but its records can't be read."""

    def __str__(self) -> str:
        if self.is_whole:
            return f"the records of a batch can't be read: {self.reason}; it ends at offset {self.end - 1}"
        return f"a record batch is damaged, {self.reason}; it ends at offset {self.end - 1}"


class DamagedPiece(NamedTuple):
    """The damage, and the position after it."""

    damaged: Damaged
    next_position: int


def base_of_whole(read_at: ReadAt, position: int, size: int) -> int | None:
    """The base offset of the batch at `position` in a file of `size` bytes; None if the batch is not intact."""
    try:
        header = read_header_within(read_at(HEADER_SIZE, position), position, size)
    except CorruptBatch:
        return None
    data = read_at(header.size, position)
    return header.base_offset if len(data) == header.size and has_valid_crc(memoryview(data), 0, header) else None


def damaged_piece_at(
    read_at: ReadAt, error: CorruptBatch, size: int, positions: Iterable[int], lowest: int, following: int
) -> DamagedPiece:
    """The damaged piece at the position of `error`.

    `positions` are the positions in the index. The segment begins at the offset `lowest`, the next one at `following`.
    """
    position = error.position
    next_position, end = size, following
    for place in (*_named_by_header(read_at, position, size), *(each for each in positions if each > position)):
        base = base_of_whole(read_at, place, size)
        if base is not None:
            next_position, end = place, base
            break
    data = read_at(next_position - position, position)
    claimed = int.from_bytes(data[:8], "big", signed=True)
    offset = claimed if lowest <= claimed < end else end - 1
    return DamagedPiece(Damaged(offset, end, data, str(error)), next_position)


def _named_by_header(read_at: ReadAt, position: int, size: int) -> list[int]:
    try:
        return [position + read_header_within(read_at(HEADER_SIZE, position), position, size).size]
    except CorruptBatch:
        return []
