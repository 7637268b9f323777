"""Which segments does a log have, in order? The last one is active.

Files of a removed segment are renamed to `.deleted` at once, so that a crash can't restore it, and unlinked later.
Retention removes from the front, truncation from the end: the remaining segments are always contiguous.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.layout import DELETED, PRODUCER_SNAPSHOT, file_name
from kafkad.core.log.segments.segment import Segment
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import NoSpaceLeft, SegmentStore


class Segments:
    """The ordered segments of one log; never empty once loaded."""

    __slots__ = ("_bases", "_sealed_bytes", "_segments", "_store", "pending_swap", "stored_aborted_counts")

    def __init__(self, store: SegmentStore, segments: Iterable[Segment] = ()) -> None:
        self._store = store
        self._segments = list(segments)
        self._bases = [segment.base_offset for segment in self._segments]
        self._sealed_bytes: int | None = None
        """The size of all segments but the active one. Cached, as each update of a slot needs the total size."""
        self.pending_swap: CleanedFiles | None = None
        """An interrupted replacement of segments, which loading would complete (`replacement`)."""
        self.stored_aborted_counts: dict[int, int] = {}
        """The content of `kafkad-aborted-transactions`: numbers of aborted transactions by base offset."""

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def base_offsets(self) -> list[int]:
        return list(self._bases)

    @property
    def size_bytes(self) -> int:
        if self._sealed_bytes is None:
            self._sealed_bytes = sum(segment.size for segment in self._segments[:-1])
        return self._sealed_bytes + self._segments[-1].size

    def add(self, segment: Segment) -> None:
        assert not self._bases or segment.base_offset > self._bases[-1], "segments are added at the end"
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self._sealed_bytes = None

    def floor(self, offset: int) -> Segment | None:
        """The segment with the greatest base offset ≤ `offset`."""
        number = bisect_right(self._bases, offset) - 1
        return self._segments[number] if number >= 0 else None

    def after(self, segment: Segment) -> Segment | None:
        """The next segment; None if `segment` is the last one or was removed."""
        number = bisect_right(self._bases, segment.base_offset)
        is_current = number > 0 and self._segments[number - 1] is segment
        return self._segments[number] if is_current and number < len(self._segments) else None

    def from_offset(self, offset: int) -> list[Segment]:
        """The segments with `offset` or later ones."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def remove_first(self, count: int) -> tuple[str, ...]:
        """Remove the `count` oldest segments; return the new names of their files."""
        removed = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        self._sealed_bytes = None
        return self._rename(removed, may_keep_names=True)

    def remove_after(self, offset: int) -> tuple[str, ...]:
        """Remove the segments that start above `offset`, newest first."""
        keep = bisect_right(self._bases, offset)
        removed = self._segments[keep:]
        del self._segments[keep:], self._bases[keep:]
        self._sealed_bytes = None
        return self._rename(reversed(removed))

    def replace(self, sources: Sequence[Segment], cleaned: Segment) -> tuple[str, ...]:
        """Replace neighbouring segments by `cleaned`; return the new names of their files.

        The producer snapshot of the first one stays: it is the state before the segment.
        """
        first = self._segments.index(sources[0])
        after = first + len(sources)
        self._segments[first:after] = [cleaned]
        self._bases[first:after] = [cleaned.base_offset]
        self._sealed_bytes = None
        renamed: list[str] = []
        for segment in sources:
            segment.close()
            for name in segment.file_names():
                if name != file_name(cleaned.base_offset, PRODUCER_SNAPSHOT) and self._mark_deleted(name):
                    renamed.append(name + DELETED)
        return tuple(renamed)

    def move_to(self, store: SegmentStore, config: LogConfig) -> None:
        """Continue with the copies of the files in `store`; close the old files."""
        # The files of an interrupted swap are in the old directory.
        self._store, self.pending_swap = store, None
        self.stored_aborted_counts = {}
        moved = [segment.with_store(store, config) for segment in self._segments]
        for segment in self._segments:
            segment.close()
        self._segments = moved

    def _mark_deleted(self, name: str) -> bool:
        """False if the file does not exist, or was unlinked as the directory has no space for the longer name."""
        try:
            self._store.rename(name, name + DELETED)
        except FileNotFoundError:
            return False
        except NoSpaceLeft:
            self._store.unlink(name)
            return False
        return True

    def _rename(self, removed: Iterable[Segment], *, may_keep_names: bool = False) -> tuple[str, ...]:
        """A longer name may require disk space. Without space, files whose names are never used again keep them: after
        a crash their segments exist again, below the log start.
        """
        names: list[str] = []
        for segment in removed:
            segment.close()
            for name in segment.file_names():
                try:
                    self._store.rename(name, name + DELETED)
                except FileNotFoundError:
                    continue
                except NoSpaceLeft:
                    if not may_keep_names:
                        raise
                    names.append(name)
                else:
                    names.append(name + DELETED)
        return tuple(names)
