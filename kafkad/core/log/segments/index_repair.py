"""Are the indexes of a segment plausible, how are they compared with its log, and rebuilt if an entry is wrong?

Segments that loading does not recover are checked for plausible indexes. After a clean stop only the file sizes are
checked, as an idle log must cost nothing; otherwise also the newest entries.

A repair is done in steps, while appends continue: new entries are built in memory from the batch headers, and replace
the files at the end. Batches after a damaged one are found through their index entries.
"""

from collections.abc import Generator, Mapping
from struct import Struct

from kafkad.core.log.records.batch import BatchHeader, CorruptBatch
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.segments.index import (
    LARGEST_RELATIVE_OFFSET,
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetPosition,
    TimestampOffset,
    entry_time,
    last_timestamp,
    used_entries,
)
from kafkad.core.log.segments.index_entries import IndexEntries
from kafkad.core.log.segments.indexed_batches import contradiction, is_time_of
from kafkad.core.log.segments.layout import OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from kafkad.core.log.segments.segment import Segment
from kafkad.core.log.segments.transaction_index import ENTRY_SIZE, is_plausible
from kafkad.core.ports import SegmentStore
from kafkad.core.types import NO_TIMESTAMP

_FIRST_TIMESTAMP_BYTES = 8


def find_damaged_index(store: SegmentStore, segment: Segment, sizes: Mapping[str, int], *, checks_entries: bool) -> str:
    """The error of the offset index or the time index; empty if there is none. `sizes` are the file sizes."""
    for kind, entry in ((OFFSET_INDEX, OFFSET_ENTRY), (TIME_INDEX, TIME_ENTRY)):
        name = file_name(segment.base_offset, kind)
        if name not in sizes:
            return f"{name} does not exist"
        if sizes[name] % entry.size:
            return f"{name} has {sizes[name]} bytes, not a multiple of the entry size"
    return _find_damaged_entry(store, segment, sizes) if checks_entries else ""


def _find_damaged_entry(store: SegmentStore, segment: Segment, sizes: Mapping[str, int]) -> str:
    """Check that the newest entries are within the segment, and that timestamps ascend."""
    name = file_name(segment.base_offset, OFFSET_INDEX)
    if sizes[name]:
        offset, position = segment.offset_index.last
        if offset <= 0 or not 0 < position < segment.size:
            return f"{name} ends with offset {segment.base_offset + offset} at byte {position} of {segment.size}"
    name = file_name(segment.base_offset, TIME_INDEX)
    if sizes[name]:
        file = store.open(name)
        first = int.from_bytes(file.read_at(_FIRST_TIMESTAMP_BYTES, 0), "big", signed=True)
        last = last_timestamp(file, sizes[name], segment.base_offset)
        used = used_entries(file, sizes[name], TIME_ENTRY)
        file.close()
        if not used or last.timestamp < entry_time(first) or last.offset < segment.base_offset:
            return f"{name} begins with timestamp {first} and ends with {last.timestamp} at offset {last.offset}"
    return ""


def find_damaged_txn_index(store: SegmentStore, segment: Segment, sizes: Mapping[str, int], count: int) -> str:
    """The error of the transaction index; most segments have none. It had `count` entries when stored."""
    name = file_name(segment.base_offset, TXN_INDEX)
    if sizes.get(name, 0) < count * ENTRY_SIZE:
        found = f"{name} has {sizes[name]} bytes" if name in sizes else f"{name} does not exist"
        return f"{found}, but {count} transactions of the segment were aborted"
    if not sizes.get(name) or is_plausible(store.read(name), segment.base_offset):
        return ""
    return f"{name} has invalid entries"


BATCHES_A_STEP = 500


def repair_indexes(segment: Segment, interval: int, *, is_active: bool) -> Generator[None, None, str]:
    """Compare all entries with the batches; rebuild the indexes if one is wrong. Returns the first error, or an empty
    text. The caller stops it when the segment is truncated or replaced. Raises `StorageFailed`, `NoSpaceLeft`.
    """
    offsets = _OffsetEntries(segment)
    times = _TimeEntries(segment)
    entries = IndexEntries(segment.base_offset, interval)
    next_offset, batches = segment.base_offset, 0
    while entries.size < segment.size:
        try:
            # An active segment grows meanwhile: its last batches are counted in the last step.
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
            next_position = offsets.first_valid_after(entries.size, next_offset)
            if next_position is None:
                break
            entries.size = next_position
            times.skip_damage()
    error = offsets.finish(entries.size) or times.finish(entries.max_timestamp, is_active=is_active)
    if not error:
        segment.wrong_index, segment.is_index_checked = "", True
        return ""
    if not is_active:
        entries.finish()
    segment.replace_indexes(entries)
    return error


def _check_order(header: BatchHeader, base_offset: int, next_offset: int, position: int) -> None:
    """Raises `CorruptBatch`."""
    relative = header.last_offset - base_offset
    if header.base_offset < next_offset or header.last_offset_delta < 0 or relative > LARGEST_RELATIVE_OFFSET:
        raise CorruptBatch(position, f"expected offset {next_offset} or slightly more, found {header.base_offset}")


class _Entries:
    """The entries of one index file, in order, and the error of the first wrong one."""

    def __init__(self, name: str, content: bytes, entry: Struct) -> None:
        self._name = name
        self._content = content
        self._entry = entry
        self._at = 0
        self._previous = -1
        self.error = ""

    def _is_at_end(self) -> bool:
        return self._at >= len(self._content)

    def _next(self) -> tuple[int, int]:
        first, second = self._entry.unpack_from(self._content, self._at)
        return first, second

    def _advance(self, first: int, problem: str) -> None:
        """Continue after this entry."""
        if not problem and first <= self._previous:
            problem = "the entries are not ascending"
        if problem and not self.error:
            self.error = f"{self._name}, entry {self._at // self._entry.size}: {problem}"
        self._previous = max(self._previous, first)
        self._at += self._entry.size


class _OffsetEntries(_Entries):
    def __init__(self, segment: Segment) -> None:
        name = file_name(segment.base_offset, OFFSET_INDEX)
        super().__init__(name, segment.offset_index.read_all(), OFFSET_ENTRY)
        self._segment = segment

    def _entry_position(self) -> OffsetPosition:
        relative, position = self._next()
        return OffsetPosition(self._segment.base_offset + relative, position)

    def compare(self, position: int, header: BatchHeader) -> None:
        """Compare with the next batch, at `position`."""
        while not self._is_at_end() and self._next()[1] <= position:
            entry = self._entry_position()
            batch = f"but a batch from offset {header.base_offset} on starts at byte {position}"
            is_right = entry.position == position and header.base_offset <= entry.offset
            problem = "" if is_right else f"offset {entry.offset} at byte {entry.position}, {batch}"
            self._advance(self._next()[0], problem)

    def first_valid_after(self, position: int, next_offset: int) -> int | None:
        """The position of the first batch after the damaged one at `position` that has an entry. Entries of damaged
        batches count as valid.
        """
        segment = self._segment
        while not self._is_at_end():
            entry = self._entry_position()
            if entry.position < position:
                self._advance(
                    self._next()[0], f"offset {entry.offset} at byte {entry.position}, which is inside of a batch"
                )
                continue
            if entry.position > position and entry.offset >= next_offset:
                if not contradiction(segment.log.read_at, segment.base_offset, entry, segment.size):
                    return entry.position
            self._advance(self._next()[0], "")
        return None

    def finish(self, size: int) -> str:
        """End the comparison: all batches, up to byte `size`, were compared. Returns the error."""
        while not self._is_at_end():
            entry = self._entry_position()
            problem = f"offset {entry.offset} at byte {entry.position}, but the log ends at {size}: records may be lost"
            self._advance(self._next()[0], problem)
        return self.error


class _TimeEntries(_Entries):
    def __init__(self, segment: Segment) -> None:
        super().__init__(file_name(segment.base_offset, TIME_INDEX), segment.time_index.read_all(), TIME_ENTRY)
        self._base_offset = segment.base_offset
        self._largest = NO_TIMESTAMP
        self._is_after_damage = False

    def skip_damage(self) -> None:
        """The next batch is after a damaged one, whose entries count as valid."""
        self._is_after_damage = True

    def compare(self, header: BatchHeader) -> None:
        """Compare with the next batch."""
        while self._is_after_damage and not self._is_at_end() and self._offset() < header.base_offset:
            self._advance(self._next()[0], "")
        self._is_after_damage = False
        self._largest = max(self._largest, header.largest_timestamp)
        while not self._is_at_end() and self._offset() <= header.last_offset:
            timestamp = self._next()[0]
            entry = TimestampOffset(timestamp, self._offset())
            is_right = timestamp == 0 or (is_time_of(header, entry) and timestamp == self._largest)
            problem = f"timestamp {timestamp} for offset {entry.offset}, the log has {header.largest_timestamp}"
            self._advance(timestamp, "" if is_right else problem)

    def _offset(self) -> int:
        return self._base_offset + self._next()[1]

    def finish(self, largest: int, *, is_active: bool) -> str:
        """End the comparison: all batches were compared. Returns the error."""
        while not self._is_at_end():
            timestamp = self._next()[0]
            self._advance(timestamp, f"timestamp {timestamp} for offset {self._offset()}, which is in no batch")
        if not self.error and not is_active and self._previous < largest:
            self.error = f"{self._name} ends with timestamp {self._previous}, the segment with {largest}"
        return self.error
