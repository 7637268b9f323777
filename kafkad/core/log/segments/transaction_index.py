"""Which transactions of a segment were aborted? Its `.txnindex` file, in Apache Kafka's format.

One entry for each abort marker in the segment, in the order of the markers, so that last offsets and last stable
offsets ascend. Segments without an aborted transaction have no file. An entry is in the file before the marker is in
the log: a reader that may pass the marker finds the entry. Like every index it can be rebuilt.
"""

from collections.abc import Sequence
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from kafkad.core.log.segments.layout import TXN_INDEX, file_name
from kafkad.core.ports import LogFile, SegmentStore

_VERSION = 0
ENTRY_LAYOUT = Struct(">hqqqq")
"""Version, producer id, first offset, last offset, last stable offset."""
ENTRY_SIZE = ENTRY_LAYOUT.size
_LAST_OFFSET = Struct(">18xq8x")
TO_BE_REBUILT = bytes(1)
"""Placeholder for a lost index until `TransactionIndex.rebuild`, also for a restart in between."""
_ENTRIES_PER_READ = 120
"""One page."""


class AbortedTransaction(NamedTuple):
    """`last_offset` is the marker's offset; `last_stable_offset` is the partition's after the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The writer of the index of one segment. The first entry opens the file."""

    __slots__ = ("_file", "_has_file", "_is_torn", "_name", "_store", "size")

    def __init__(self, store: SegmentStore, base_offset: int, size: int | None = None) -> None:
        """`size`: the size of the file, if it exists; an incomplete entry at its end is overwritten."""
        self._store = store
        self._name = file_name(base_offset, TXN_INDEX)
        self._file: LogFile | None = None
        self._has_file = size is not None
        self._is_torn = (size or 0) % ENTRY_SIZE > 0
        self.size = (size or 0) // ENTRY_SIZE * ENTRY_SIZE

    def append(self, aborted: AbortedTransaction) -> None:
        file = self._opened(create=not self._has_file)
        self._has_file = True
        file.write_at((ENTRY_LAYOUT.pack(_VERSION, *aborted),), self.size)
        self.size += ENTRY_SIZE

    def remove_last(self) -> None:
        """Remove the newest entry, whose marker was not written."""
        self._truncate(self.size - ENTRY_SIZE)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries of markers at `offset` and after it."""
        if self.size:
            size = first_entry_ending_at(self._opened(), self.size, offset) * ENTRY_SIZE
            if size < self.size:
                self._truncate(size)

    def rebuild(self, entries: Sequence[AbortedTransaction]) -> None:
        """Replace all entries, synced if they differ: the segment may be below the recovery point, where no later
        recovery would rebuild the index.
        """
        if not self._is_torn and self.entries() == entries:
            return
        self.close()
        self._is_torn = False
        self._has_file = bool(entries)
        self.size = len(entries) * ENTRY_SIZE
        if entries:
            self._store.replace(self._name, b"".join(ENTRY_LAYOUT.pack(_VERSION, *entry) for entry in entries))
        else:
            self._store.unlink(self._name)
            self._store.sync_directory()

    @property
    def count(self) -> int:
        return self.size // ENTRY_SIZE

    def entries(self) -> list[AbortedTransaction]:
        return unpack_entries(self._opened().read_at(self.size, 0)) if self.size else []

    def files(self) -> tuple[LogFile, ...]:
        """The files to sync with the segment, also an empty one: truncated entries might reappear."""
        return (self._opened(),) if self._has_file else ()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self, *, create: bool = False) -> LogFile:
        if self._file is None or create:
            self._file = self._store.open(self._name, create=create)
        return self._file

    def _truncate(self, size: int) -> None:
        """Truncate and sync: a flush from the end of the segment on would not sync the file."""
        file = self._opened()
        file.truncate(size)
        file.sync()
        self.size = size


def unpack_entries(content: bytes) -> list[AbortedTransaction]:
    """Every whole entry of a file's content."""
    whole = len(content) - len(content) % ENTRY_SIZE
    return [AbortedTransaction(*row[1:]) for row in ENTRY_LAYOUT.iter_unpack(memoryview(content)[:whole])]


def is_plausible(content: bytes, base_offset: int) -> bool:
    """Whether the content is plausible for the index of segment `base_offset`."""
    if len(content) % ENTRY_SIZE or any(row[0] != _VERSION for row in ENTRY_LAYOUT.iter_unpack(content)):
        return False
    ends = [base_offset - 1, *(entry.last_offset for entry in unpack_entries(content))]
    return all(before < after for before, after in pairwise(ends))


def first_entry_ending_at(file: LogFile, size: int, offset: int) -> int:
    """The number of the first entry whose marker is at `offset` or after it."""
    low, high = 0, size // ENTRY_SIZE
    while low < high:
        middle = (low + high) // 2
        if _LAST_OFFSET.unpack(file.read_at(ENTRY_SIZE, middle * ENTRY_SIZE))[0] < offset:
            low = middle + 1
        else:
            high = middle
    return low


class Collected(NamedTuple):
    """`is_complete`: no later segment can have more entries for the requested range."""

    aborted: Sequence[AbortedTransaction]
    is_complete: bool


def collect_aborted(file: LogFile, fetch_offset: int, upper_bound: int) -> Collected:
    """The aborted transactions of one index with offsets from `fetch_offset` to below `upper_bound`."""
    size = file.size()
    found: list[AbortedTransaction] = []
    at = first_entry_ending_at(file, size, fetch_offset) * ENTRY_SIZE
    while at + ENTRY_SIZE <= size:
        chunk = file.read_at(min(size - at, _ENTRIES_PER_READ * ENTRY_SIZE), at)
        for entry in unpack_entries(chunk):
            if entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return Collected(found, True)
        if len(chunk) < ENTRY_SIZE:
            break
        at += len(chunk) - len(chunk) % ENTRY_SIZE
    return Collected(found, False)
