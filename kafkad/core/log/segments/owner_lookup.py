"""Where in a segment is an offset, where is its end, and what is its largest timestamp? For the owner, which works with
wrong indexes too.

After a wrong entry it tries earlier ones, at twice the distance each time: even an index without any valid entry takes
few reads. Errors are recorded in `wrong_index`, and the indexes are rebuilt (`index_repair`).
"""

from typing import Protocol

from kafkad.core.log.records.batch import BatchHeader, CorruptBatch
from kafkad.core.log.records.batch_scan import find_batch, walk_batches, walk_intact
from kafkad.core.log.segments.index import (
    LARGEST_RELATIVE_OFFSET,
    NO_ENTRY,
    TIME_ENTRY,
    IndexAppender,
    OffsetPosition,
    TimestampOffset,
    entry_time,
)
from kafkad.core.log.segments.indexed_batches import contradiction, is_time_of
from kafkad.core.ports import LogFile
from kafkad.core.types import NO_TIMESTAMP


class OwnedSegment(Protocol):
    """A segment; `wrong_index` gets the last error of an index."""

    log: LogFile
    base_offset: int
    size: int
    wrong_index: str

    @property
    def offset_index(self) -> IndexAppender: ...


class OwnerLookup:
    """One look-up in a segment."""

    __slots__ = ("_base_offset", "_index", "_log", "_segment", "_size")

    def __init__(self, segment: OwnedSegment) -> None:
        self._segment = segment
        self._log = segment.log
        self._base_offset = segment.base_offset
        self._size = segment.size
        self._index = segment.offset_index

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The batch with `offset`, or the first one after it. Raises `CorruptBatch`."""
        return find_batch(self._log, self.position_below(offset - self._base_offset), self._size, offset)

    def position_below(self, relative: int = LARGEST_RELATIVE_OFFSET) -> int:
        """The position of the batch of the greatest valid entry ≤ `relative`; 0 if there is none."""
        index, skipped = self._index, 0
        near = index.last if index.last[0] <= relative else index.at_or_before(relative)
        while near is not None and near not in (NO_ENTRY, (0, 0)):
            entry = OffsetPosition(self._base_offset + near[0], near[1])
            error = contradiction(self._log.read_at, self._base_offset, entry, self._size)
            if not error:
                return entry.position
            self._segment.wrong_index = error
            skipped = max(2 * skipped, relative - near[0] + 1)
            near = index.at_or_before(relative - skipped)
        return 0

    def next_offset(self) -> int:
        """The offset after the last batch, found in the headers after the last valid entry. Raises `CorruptBatch`."""
        next_offset = self._base_offset
        for at, header in walk_batches(self._log.read_at, self.position_below(), self._size):
            relative = header.last_offset - self._base_offset
            if header.base_offset < next_offset or not 0 <= relative <= LARGEST_RELATIVE_OFFSET:
                raise CorruptBatch(at, f"expected offset {next_offset} or slightly more, found {header.base_offset}")
            next_offset = header.next_offset
        return next_offset

    def largest_time(self, times: IndexAppender) -> TimestampOffset:
        """The largest timestamp, from the last valid entry of the time index and the batches after it, up to a damaged
        one.
        """
        largest, position = self._last_time(times)
        for header in walk_intact(self._log.read_at, position, self._size):
            if header.largest_timestamp > largest.timestamp:
                largest = TimestampOffset(header.largest_timestamp, header.last_offset)
        return largest

    def _last_time(self, times: IndexAppender) -> tuple[TimestampOffset, int]:
        """The last valid entry of the time index, and the position after which larger timestamps may follow."""
        last = self._entry(*times.last)
        if last.timestamp < 0 or self._is_valid(last):
            # Each offset entry was written together with the largest timestamp so far.
            return last, self.position_below()
        self._segment.wrong_index = f"the time index ends with timestamp {last.timestamp} for offset {last.offset}"
        content, distance = times.read_all(), 2
        while (start := len(content) - distance * TIME_ENTRY.size) >= 0:
            earlier = self._entry(*TIME_ENTRY.unpack_from(content, start))
            if self._is_valid(earlier):
                return earlier, self.position_below(earlier.offset - self._base_offset)
            distance *= 2
        return TimestampOffset(NO_TIMESTAMP, self._base_offset), 0

    def _entry(self, timestamp: int, relative: int) -> TimestampOffset:
        return TimestampOffset(entry_time(timestamp), self._base_offset + relative)

    def _is_valid(self, entry: TimestampOffset) -> bool:
        try:
            found = self.find(entry.offset)
        except CorruptBatch:
            return False
        return found is not None and is_time_of(found[1], entry)
