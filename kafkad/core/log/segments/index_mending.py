"""How are the indexes of a segment compared with its log, and made anew if an entry is wrong?

In steps, beside appends: the entries are made from the headers of the batches, in memory, and replace the files only at
the end. Batches behind a damaged one are found by the entries that name them.
"""

from collections.abc import Generator
from struct import Struct

from kafkad.core.log.records.batch import BatchHeader, CorruptBatch
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.segments.index import (
    LARGEST_RELATIVE_OFFSET,
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetPosition,
    TimestampOffset,
)
from kafkad.core.log.segments.index_entries import IndexEntries
from kafkad.core.log.segments.indexed_batches import contradiction, is_time_of
from kafkad.core.log.segments.layout import OFFSET_INDEX, TIME_INDEX, file_name
from kafkad.core.log.segments.segment import Segment
from kafkad.core.types import NO_TIMESTAMP

BATCHES_A_STEP = 500


def mend_indexes(segment: Segment, interval: int, *, is_active: bool) -> Generator[None, None, str]:
    """Compare all entries with the batches. Returns what was wrong, after the indexes were made anew; empty if nothing
    was. Stop it when the segment was truncated or replaced. Raises `StorageFailed`, `NoSpaceLeft`.
    """
    offsets = _OffsetEntries(segment)
    times = _TimeEntries(segment)
    entries = IndexEntries(segment.base_offset, interval)
    next_offset, batches = segment.base_offset, 0
    while entries.size < segment.size:
        try:
            # An active segment grows meanwhile: its last batches are counted in the step in which it is mended.
            for position, header in walk_batches(segment.log.read_at, entries.size, segment.size):
                _check_order(header, segment.base_offset, next_offset, position)
                offsets.compare(position, header)
                times.compare(header)
                entries.count(header.size, header.last_offset, header.largest_timestamp)
                next_offset = header.next_offset
                batches += 1
                if batches % BATCHES_A_STEP == 0:
                    yield
        except CorruptBatch:
            behind = offsets.first_right_behind(entries.size, next_offset)
            if behind is None:
                break
            entries.size = behind
            times.pass_damage()
    wrong = offsets.finish(entries.size) or times.finish(entries.max_timestamp, is_active=is_active)
    if not wrong:
        segment.wrong_index, segment.index_was_checked = "", True
        return ""
    if not is_active:
        entries.finish()
    segment.take_indexes(entries)
    return wrong


def _check_order(header: BatchHeader, base_offset: int, next_offset: int, position: int) -> None:
    """Raises `CorruptBatch`."""
    relative = header.last_offset - base_offset
    if header.base_offset < next_offset or header.last_offset_delta < 0 or relative > LARGEST_RELATIVE_OFFSET:
        raise CorruptBatch(position, f"expected offset {next_offset} or a little more, found {header.base_offset}")


class _Entries:
    """The entries of one index file, in their order, and the first that is wrong."""

    def __init__(self, name: str, content: bytes, entry: Struct) -> None:
        self._name = name
        self._content = content
        self._entry = entry
        self._at = 0
        self._previous = -1
        self.wrong = ""

    def _is_over(self) -> bool:
        return self._at >= len(self._content)

    def _next(self) -> tuple[int, int]:
        first, second = self._entry.unpack_from(self._content, self._at)
        return first, second

    def _pass(self, first: int, problem: str) -> None:
        """Go on behind this entry."""
        if not problem and first <= self._previous:
            problem = "the entries do not ascend"
        if problem and not self.wrong:
            self.wrong = f"{self._name}, entry {self._at // self._entry.size}: {problem}"
        self._previous = max(self._previous, first)
        self._at += self._entry.size


class _OffsetEntries(_Entries):
    def __init__(self, segment: Segment) -> None:
        name = file_name(segment.base_offset, OFFSET_INDEX)
        super().__init__(name, segment.offset_index.read_all(), OFFSET_ENTRY)
        self._segment = segment

    def _place(self) -> OffsetPosition:
        relative, position = self._next()
        return OffsetPosition(self._segment.base_offset + relative, position)

    def compare(self, position: int, header: BatchHeader) -> None:
        """The next batch begins at `position`."""
        while not self._is_over() and self._next()[1] <= position:
            entry, begins = self._place(), f"a batch from offset {header.base_offset} on begins at byte {position}"
            is_right = entry.position == position and header.base_offset <= entry.offset
            problem = "" if is_right else f"it has offset {entry.offset} at byte {entry.position}, {begins}"
            self._pass(self._next()[0], problem)

    def first_right_behind(self, position: int, next_offset: int) -> int | None:
        """Where a batch begins behind the damaged one at `position`, if an entry names one. Those of damaged batches
        count as right.
        """
        segment = self._segment
        while not self._is_over():
            entry = self._place()
            if entry.position < position:
                self._pass(self._next()[0], f"it has offset {entry.offset} at byte {entry.position}, inside of a batch")
                continue
            if entry.position > position and entry.offset >= next_offset:
                if not contradiction(segment.log.read_at, segment.base_offset, entry, segment.size):
                    return entry.position
            self._pass(self._next()[0], "")
        return None

    def finish(self, size: int) -> str:
        """All batches, up to byte `size`, were compared."""
        while not self._is_over():
            entry = self._place()
            what = f"it has offset {entry.offset} at byte {entry.position}, the log ends at {size}: records may be lost"
            self._pass(self._next()[0], what)
        return self.wrong


class _TimeEntries(_Entries):
    def __init__(self, segment: Segment) -> None:
        super().__init__(file_name(segment.base_offset, TIME_INDEX), segment.time_index.read_all(), TIME_ENTRY)
        self._base_offset = segment.base_offset
        self._largest = NO_TIMESTAMP
        self._is_behind_damage = False

    def pass_damage(self) -> None:
        """The next batch is behind a damaged one, of which the entries count as right."""
        self._is_behind_damage = True

    def compare(self, header: BatchHeader) -> None:
        """This is the next batch."""
        while self._is_behind_damage and not self._is_over() and self._offset() < header.base_offset:
            self._pass(self._next()[0], "")
        self._is_behind_damage = False
        self._largest = max(self._largest, header.largest_timestamp)
        while not self._is_over() and self._offset() <= header.last_offset:
            timestamp = self._next()[0]
            entry = TimestampOffset(timestamp, self._offset())
            is_right = timestamp == 0 or (is_time_of(header, entry) and timestamp == self._largest)
            what = f"it has time {timestamp} for offset {entry.offset}, the log {header.largest_timestamp}"
            self._pass(timestamp, "" if is_right else what)

    def _offset(self) -> int:
        return self._base_offset + self._next()[1]

    def finish(self, largest: int, *, is_active: bool) -> str:
        """All batches were compared."""
        while not self._is_over():
            timestamp = self._next()[0]
            self._pass(timestamp, f"it has time {timestamp} for offset {self._offset()}, which is in no batch")
        if not self.wrong and not is_active and self._previous < largest:
            self.wrong = f"{self._name} ends with time {self._previous}, the segment with {largest}"
        return self.wrong
