"""At which position of a segment is an offset, and from which offset on may a timestamp be found?

Both indexes are sorted, sparse arrays on disk, and can be rebuilt: a reader scans batch headers from the entry below.
The owner buffers new entries and writes several at once, so an index may lag behind the log. Preallocated, unused
entries are zero. Look-ups check the entries against the log (`indexed_batches`).
"""

from struct import Struct
from typing import NamedTuple

from kafkad.core.ports import LogFile
from kafkad.core.types import NO_TIMESTAMP

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
LARGEST_RELATIVE_OFFSET = 2**31 - 1
NO_ENTRY = (-1, -1)

FLUSH_ENTRIES = 16
"""Entries that the owner buffers before a write: a look-up then scans at most this many more index intervals, and an
append costs 1/16 of a system call."""

PAGE_BYTES = 4096


class OffsetPosition(NamedTuple):
    """The last offset of a batch, and the position of the batch."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A timestamp, and the last offset of its batch."""

    timestamp: int
    offset: int


class IndexAppender:
    """The writer of one index: the number of its entries, the newest one, and the entries not on disk yet.

    Files are read on first use only: 10,000 idle partitions cost nothing.
    """

    __slots__ = ("_capacity", "_entry", "_flushed", "_is_extended", "_pending", "file", "last")

    def __init__(self, file: LogFile, entry: Struct, *, max_bytes: int, entries: int = 0) -> None:
        self.file = file
        self._entry = entry
        self._capacity = max_bytes // entry.size
        self._flushed = entries
        self._is_extended = False
        self._pending = bytearray()
        self.last: tuple[int, int] = self._last_on_disk()

    @property
    def entries(self) -> int:
        return self._flushed + len(self._pending) // self._entry.size

    @property
    def free_entries(self) -> int:
        """The number of entries that still fit into segment.index.bytes."""
        return self._capacity - self._flushed - len(self._pending) // self._entry.size

    def append(self, first: int, second: int) -> None:
        """Add one entry: (relative offset, position) or (timestamp, relative offset)."""
        self._pending += self._entry.pack(first, second)
        self.last = (first, second)
        if len(self._pending) >= FLUSH_ENTRIES * self._entry.size:
            self.flush()

    def flush(self) -> None:
        """Write the buffered entries. The first write extends the file to its full (sparse) size."""
        if not self._pending:
            return
        if not self._is_extended and self._capacity > self.entries:
            self.file.truncate(self._capacity * self._entry.size)
            self._is_extended = True
        self.file.write_at((self._pending,), self._flushed * self._entry.size)
        self._flushed += len(self._pending) // self._entry.size
        self._pending = bytearray()

    def trim(self) -> None:
        """Write all entries and truncate the unused rest of the file."""
        self.flush()
        self.file.truncate(self._flushed * self._entry.size)
        self._is_extended = False

    def truncate_to_entries(self, entries: int) -> None:
        """Remove all entries from number `entries` on, also on disk."""
        self.flush()
        self._flushed = min(entries, self._flushed)
        self.trim()
        self.last = self._last_on_disk()

    def at_or_before(self, target: int) -> tuple[int, int] | None:
        """The greatest entry whose first number is ≤ `target`, from memory or by a few reads."""
        pending = bytes(self._pending)
        if pending and self._entry.unpack_from(pending)[0] <= target:
            return greatest_entry(pending, self._entry, target)
        return _greatest(self.file, self._flushed * self._entry.size, self._entry, target)

    def read_all(self) -> bytes:
        self.flush()
        return self.file.read_at(self._flushed * self._entry.size, 0)

    def close(self) -> None:
        self.file.close()

    def _last_on_disk(self) -> tuple[int, int]:
        if self._flushed == 0:
            return NO_ENTRY
        data = self.file.read_at(self._entry.size, (self._flushed - 1) * self._entry.size)
        first, second = self._entry.unpack(data)
        return first, second


def used_entries(file: LogFile, size: int, entry: Struct) -> int:
    """The number of used entries of an index file: all, or those before the preallocated zeros."""
    low, high = 0, size // entry.size
    if high == 0 or _is_used(file, entry, high - 1):
        return high
    while low < high:
        middle = (low + high) // 2
        if _is_used(file, entry, middle):
            low = middle + 1
        else:
            high = middle
    return low


def _is_used(file: LogFile, entry: Struct, number: int) -> bool:
    data = file.read_at(entry.size, number * entry.size)
    # No used entry is all zero: the first batch (position 0) never gets an offset entry.
    return len(data) == entry.size and any(data)


def lookup_timestamp(file: LogFile, size: int, base_offset: int, target: int) -> TimestampOffset:
    """The greatest entry whose timestamp is ≤ `target`, or (-1, the segment's first offset)."""
    found = _greatest(file, size, TIME_ENTRY, target)
    if found is None:
        return TimestampOffset(-1, base_offset)
    return TimestampOffset(found[0], base_offset + found[1])


def last_timestamp(file: LogFile, size: int, base_offset: int) -> TimestampOffset:
    """The newest entry of a time index, with its largest timestamp; -1 for none (`entry_time`)."""
    entries = used_entries(file, size, TIME_ENTRY)
    if entries == 0:
        return TimestampOffset(-1, base_offset)
    timestamp, relative = TIME_ENTRY.unpack(file.read_at(TIME_ENTRY.size, (entries - 1) * TIME_ENTRY.size))
    return TimestampOffset(entry_time(timestamp), base_offset + relative)


def entry_time(timestamp: int) -> int:
    """The timestamp of an entry. 0 means none: earlier versions wrote it for records without a timestamp."""
    return timestamp or NO_TIMESTAMP


def _greatest(file: LogFile, size: int, entry: Struct, target: int) -> tuple[int, int] | None:
    return greatest_entry(page_for(file, size, entry, target)[1], entry, target)


def page_for(file: LogFile, size: int, entry: Struct, target: int) -> tuple[int, bytes]:
    """(byte position, content) of the one page that can contain the greatest entry ≤ `target`.

    Binary search over pages by single reads: a 2 MB index takes nine small reads.
    """
    per_page = PAGE_BYTES // entry.size
    low, high = 0, -(-(size // entry.size) // per_page)
    while high - low > 1:
        middle = (low + high) // 2
        data = file.read_at(entry.size, middle * per_page * entry.size)
        if len(data) == entry.size and any(data) and entry.unpack(data)[0] <= target:
            low = middle
        else:
            high = middle
    return read_page(file, size, entry, low * per_page * entry.size)


def read_page(file: LogFile, size: int, entry: Struct, position: int) -> tuple[int, bytes]:
    """`position` and the whole entries from there on, at most a page."""
    page_bytes = PAGE_BYTES // entry.size * entry.size
    whole_bytes = size // entry.size * entry.size
    return position, file.read_at(min(page_bytes, whole_bytes - position), position)


def first_entry_from(file: LogFile, size: int, base_offset: int, position: int) -> OffsetPosition | None:
    """The first entry whose batch is at byte `position` or after it; None if there is none."""
    low, high = 0, used_entries(file, size, OFFSET_ENTRY)
    found = None
    while low < high:
        middle = (low + high) // 2
        relative, start = OFFSET_ENTRY.unpack(file.read_at(OFFSET_ENTRY.size, middle * OFFSET_ENTRY.size))
        if start < position:
            low = middle + 1
        else:
            found, high = OffsetPosition(base_offset + relative, start), middle
    return found


def greatest_entry(page: bytes, entry: Struct, target: int) -> tuple[int, int] | None:
    """The greatest used entry of `page` whose key is ≤ `target`."""
    low, high = 0, len(page) // entry.size
    while low < high:
        middle = (low + high) // 2
        first, second = entry.unpack_from(page, middle * entry.size)
        if (first or second) and first <= target:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return None
    first, second = entry.unpack_from(page, (low - 1) * entry.size)
    return first, second


def entries_below(entries: bytes, key_at: int, entry_size: int, relative_offset: int) -> int:
    """The number of entries with offsets below `relative_offset`; the offset of an entry is at byte `key_at`."""
    count = 0
    for start in range(key_at, len(entries), entry_size):
        if int.from_bytes(entries[start : start + 4], "big", signed=True) >= relative_offset:
            break
        count += 1
    return count
