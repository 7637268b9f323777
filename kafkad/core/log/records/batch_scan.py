"""Which batches are in a segment file from a given byte on? Only headers are read.

One read returns many small batches, or the header of a large one. Headers are checked only as far as the position of
the next batch requires.
"""

from collections.abc import Callable, Iterator

from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header_within
from kafkad.core.log.segments.index import TimestampOffset
from kafkad.core.ports import LogFile
from kafkad.core.types import NO_TIMESTAMP

ReadAt = Callable[[int, int], bytes]
_WINDOW = 8192


def walk_batches(read_at: ReadAt, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from `position` to byte `end`, by `LogFile.read_at`.

    Raises `CorruptBatch` for a truncated batch, an invalid length or another magic.
    """
    window = b""
    window_start = position
    read_size = _WINDOW
    while position < end:
        at = position - window_start
        if at + HEADER_SIZE > len(window):
            window = read_at(min(read_size, end - position), position)
            window_start, at = position, 0
        header = read_header_within(window[at : at + HEADER_SIZE], position, end)
        yield position, header
        size = header.size
        read_size = HEADER_SIZE if size > _WINDOW // 2 else _WINDOW
        position += size


def walk_intact(read_at: ReadAt, position: int, end: int) -> Iterator[BatchHeader]:
    """The headers of the batches before the first damaged one."""
    try:
        for _, header in walk_batches(read_at, position, end):
            yield header
    except CorruptBatch:
        return


def find_batch(file: LogFile, position: int, end: int, offset: int) -> tuple[int, BatchHeader] | None:
    """The first batch from `position` on with `offset` or a later one (compaction leaves gaps)."""
    for found in walk_batches(file.read_at, position, end):
        if found[1].last_offset >= offset:
            return found
    return None


def largest_timestamp(file: LogFile, position: int, end: int) -> TimestampOffset:
    """The largest timestamp of the batches from `position` on, and the last offset of its batch."""
    largest = TimestampOffset(NO_TIMESTAMP, -1)
    for _, header in walk_batches(file.read_at, position, end):
        if header.largest_timestamp > largest.timestamp:
            largest = TimestampOffset(header.largest_timestamp, header.last_offset)
    return largest
