"""Where in one segment is an offset? For readers that read forward.

A look-up ends in one page of the offset index. The page is cached, as the next look-up usually needs the same one.
Index entries are added and never changed (a truncation gives a new generation, and so a new reader), so a cached page
stays valid from its first to its last entry.
"""

from kafkad.core.log.segments.index import (
    OFFSET_ENTRY,
    PAGE_BYTES,
    OffsetPosition,
    greatest_entry,
    page_for,
    read_page,
)
from kafkad.core.ports import LogFile

_BEYOND = 1 << 31
"""Larger than any relative offset."""


class OffsetLookup:
    """The reader of one offset index."""

    __slots__ = ("_base_offset", "_file", "_first", "_last", "_page", "_position")

    def __init__(self, file: LogFile, base_offset: int) -> None:
        self._file = file
        self._base_offset = base_offset
        self._page = b""
        self._position = 0
        self._first = self._last = -1
        """The page is valid for relative offsets from `_first` to `_last`."""

    def at_or_before(self, offset: int) -> OffsetPosition:
        """The greatest entry with an offset ≤ `offset`, or the start of the segment. `find_from_entry` checks the
        entry.
        """
        relative = offset - self._base_offset
        if not self._first <= relative <= self._last:
            self._load_page(relative)
        found = greatest_entry(self._page, OFFSET_ENTRY, relative)
        if found is None:
            return OffsetPosition(self._base_offset, 0)
        return OffsetPosition(self._base_offset + found[0], found[1])

    def _load_page(self, relative: int) -> None:
        """Load the page for `relative`."""
        size = self._file.size()
        if relative > self._last >= 0:
            self._cache(read_page(self._file, size, OFFSET_ENTRY, self._position))
            if relative <= self._last or not self._is_full:
                return
        self._cache(page_for(self._file, size, OFFSET_ENTRY, relative))

    @property
    def _is_full(self) -> bool:
        """Whether entries may follow the page."""
        return len(self._page) == PAGE_BYTES and any(self._page[-OFFSET_ENTRY.size :])

    def _cache(self, found: tuple[int, bytes]) -> None:
        self._position, self._page = found
        newest = greatest_entry(self._page, OFFSET_ENTRY, _BEYOND)
        if newest is None:
            self._first = self._last = -1
            return
        self._last = newest[0]
        # Before the first index entry, the result is the start of the segment.
        self._first = OFFSET_ENTRY.unpack_from(self._page)[0] if self._position else 0
