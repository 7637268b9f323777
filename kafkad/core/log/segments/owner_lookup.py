"""Where is an offset, where the end, and which is the largest timestamp of a segment? For its owner, which can't wait
for right indexes.

Behind a wrong entry it looks at earlier ones, twice as far away each time: an index of which nothing is right costs few
looks. What it found wrong it tells, so that somebody has the indexes made anew (`index_mending`).
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
    known_time,
)
from kafkad.core.log.segments.indexed_batches import contradiction, is_time_of
from kafkad.core.ports import LogFile
from kafkad.core.types import NO_TIMESTAMP


class OwnedSegment(Protocol):
    """`wrong_index` gets what was found wrong."""

    log: LogFile
    base_offset: int
    size: int
    wrong_index: str

    @property
    def offset_index(self) -> IndexAppender: ...


class OwnerLookup:
    """One look into a segment."""

    __slots__ = ("_base_offset", "_index", "_log", "_segment", "_size")

    def __init__(self, segment: OwnedSegment) -> None:
        self._segment = segment
        self._log = segment.log
        self._base_offset = segment.base_offset
        self._size = segment.size
        self._index = segment.offset_index

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The batch that holds `offset`, or the first one behind it. Raises `CorruptBatch`."""
        return find_batch(self._log, self.position_below(offset - self._base_offset), self._size, offset)

    def position_below(self, relative: int = LARGEST_RELATIVE_OFFSET) -> int:
        """Where the batch of the greatest right entry of at most `relative` begins; 0 if there is none."""
        index, lost = self._index, 0
        near = index.last if index.last[0] <= relative else index.at_or_before(relative)
        while near is not None and near not in (NO_ENTRY, (0, 0)):
            entry = OffsetPosition(self._base_offset + near[0], near[1])
            wrong = contradiction(self._log.read_at, self._base_offset, entry, self._size)
            if not wrong:
                return entry.position
            self._segment.wrong_index = wrong
            lost = max(2 * lost, relative - near[0] + 1)
            near = index.at_or_before(relative - lost)
        return 0

    def next_offset(self) -> int:
        """The offset after the last batch: from the last right entry the headers are walked to the end. Raises
        `CorruptBatch`.
        """
        next_offset = self._base_offset
        for at, header in walk_batches(self._log.read_at, self.position_below(), self._size):
            relative = header.last_offset - self._base_offset
            if header.base_offset < next_offset or not 0 <= relative <= LARGEST_RELATIVE_OFFSET:
                raise CorruptBatch(at, f"expected offset {next_offset} or a little more, found {header.base_offset}")
            next_offset = header.next_offset
        return next_offset

    def largest_time(self, times: IndexAppender) -> TimestampOffset:
        """The largest timestamp, from the last right entry of the time index and the batches after it; up to a damaged
        one.
        """
        largest, position = self._last_time(times)
        for header in walk_intact(self._log.read_at, position, self._size):
            if header.largest_timestamp > largest.timestamp:
                largest = TimestampOffset(header.largest_timestamp, header.last_offset)
        return largest

    def _last_time(self, times: IndexAppender) -> tuple[TimestampOffset, int]:
        """The last right entry of the time index, and from which byte on there may be larger timestamps."""
        last = self._entry(*times.last)
        if last.timestamp < 0 or self._is_right(last):
            # Each offset entry was written together with the largest timestamp so far.
            return last, self.position_below()
        self._segment.wrong_index = f"the time index ends with time {last.timestamp} for offset {last.offset}"
        content, distance = times.read_all(), 2
        while (start := len(content) - distance * TIME_ENTRY.size) >= 0:
            earlier = self._entry(*TIME_ENTRY.unpack_from(content, start))
            if self._is_right(earlier):
                return earlier, self.position_below(earlier.offset - self._base_offset)
            distance *= 2
        return TimestampOffset(NO_TIMESTAMP, self._base_offset), 0

    def _entry(self, timestamp: int, relative: int) -> TimestampOffset:
        return TimestampOffset(known_time(timestamp), self._base_offset + relative)

    def _is_right(self, entry: TimestampOffset) -> bool:
        try:
            found = self.find(entry.offset)
        except CorruptBatch:
            return False
        return found is not None and is_time_of(found[1], entry)
