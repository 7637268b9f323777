"""Which batches does a segment file hold from a given byte on, by their headers alone?

Many small batches are read at once; of a large batch only the header is read. Nothing is checked beyond what a
header must be to lead to the next one.
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

    Raises `CorruptBatch` where a batch is cut short, has an impossible length or another magic.
    """
    window = b""
    window_start = position
    wanted = _WINDOW
    while position < end:
        at = position - window_start
        if at + HEADER_SIZE > len(window):
            window = read_at(min(wanted, end - position), position)
            window_start, at = position, 0
        header = read_header_within(window[at : at + HEADER_SIZE], position, end)
        yield position, header
        size = header.size
        wanted = HEADER_SIZE if size > _WINDOW // 2 else _WINDOW
        position += size


def walk_intact(read_at: ReadAt, position: int, end: int) -> Iterator[BatchHeader]:
    """The headers of the batches up to the first damaged one: behind that nobody can find one."""
    try:
        for _, header in walk_batches(read_at, position, end):
            yield header
    except CorruptBatch:
        return


def find_batch(file: LogFile, position: int, end: int, offset: int) -> tuple[int, BatchHeader] | None:
    """The first batch from `position` on that holds `offset` or comes after it (compaction leaves gaps)."""
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
