"""Do the indexes of a segment agree with its log?

An offset index entry has the last offset of a batch and the position of this batch; a time index entry the largest
timestamp so far and the last offset of its batch. Zero entries after the first are preallocated space, not entries.
Only batch headers are read.
"""

from collections.abc import Iterator
from struct import Struct

from kafkad.core.log.reading.dump import Found, Line, Problem, Source
from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header_within
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from kafkad.core.types import NO_TIMESTAMP


def dump_offset_index(index: Source, log: Source, base_offset: int) -> Found:
    """Yields every entry, a problem for each entry without a batch in the log, and a line for an empty index."""
    previous = base_offset - 1
    if not index.size:
        yield Line(kind="empty", fields={})
    for relative, position in _entries(index.content(), OFFSET_ENTRY, relative_at=0):
        offset = base_offset + relative
        yield Line(kind="index", fields={"offset": offset, "position": position})
        if offset <= previous:
            yield Problem(message=f"Index offset: {offset}, previously indexed offset: {previous}")
        previous = offset
        try:
            found = read_header_within(log.read_at(HEADER_SIZE, max(position, 0)), position, log.size)
        except CorruptBatch as error:
            yield Problem(message=f"Index offset: {offset}, no batch in {log.name} {error}")
            continue
        if position < 0 or found.last_offset != offset:
            yield Problem(message=f"Index offset: {offset}, log offset: {found.last_offset}")
    yield from _trailing(index, OFFSET_ENTRY)


def dump_time_index(index: Source, log: Source, base_offset: int) -> Found:
    """Yields every entry, and a problem for each offset, timestamp or order that contradicts the log."""
    batches = _BatchFinder(log)
    previous = NO_TIMESTAMP
    for timestamp, relative in _entries(index.content(), TIME_ENTRY, relative_at=1):
        offset = base_offset + relative
        yield Line(kind="timeindex", fields={"timestamp": timestamp, "offset": offset})
        found = batches.at_or_after(offset)
        if found is None or found.last_offset != offset:
            log_offset = -1 if found is None else found.last_offset
            yield Problem(message=f"Indexed offset: {offset}, found log offset: {log_offset}")
        elif found.max_timestamp != timestamp:
            yield Problem(message=f"Index timestamp: {timestamp}, log timestamp: {found.max_timestamp}")
        if previous >= timestamp:
            yield Problem(message=f"Index timestamp: {timestamp}, Previously indexed timestamp: {previous}")
        previous = timestamp
    yield from _trailing(index, TIME_ENTRY)


class _BatchFinder:
    """Finds batches in one pass over the log, for offsets in ascending order."""

    def __init__(self, log: Source) -> None:
        self._headers = _intact_headers(log)
        self._current: BatchHeader | None = next(self._headers, None)

    def at_or_after(self, offset: int) -> BatchHeader | None:
        while self._current is not None and self._current.last_offset < offset:
            self._current = next(self._headers, None)
        return self._current


def _intact_headers(log: Source) -> Iterator[BatchHeader]:
    try:
        for _, header in walk_batches(log.read_at, 0, log.size):
            yield header
    except CorruptBatch:
        # Bytes from here on are no batches; the dump of the log reports them.
        return


def _entries(content: bytes, entry: Struct, *, relative_at: int) -> Iterator[tuple[int, int]]:
    whole = len(content) - len(content) % entry.size
    for number, values in enumerate(entry.iter_unpack(memoryview(content)[:whole])):
        if number and values[relative_at] == 0:
            return
        yield values


def _trailing(index: Source, entry: Struct) -> Found:
    trailing = index.size % entry.size
    if trailing:
        yield Problem(message=f"{trailing} bytes at the end of {index.name} are an incomplete entry")
