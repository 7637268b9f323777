"""Which segments does a log consist of, in order; the last one is active.

Files of a removed segment are renamed to `.deleted` at once, so that a crash can't bring it back, and unlinked
later. Retention removes from the front, truncation from the back: what is left is contiguous at every step.
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

    __slots__ = ("_bases", "_sealed_bytes", "_segments", "_store", "aborted_on_file", "begun_swap")

    def __init__(self, store: SegmentStore, segments: Iterable[Segment] = ()) -> None:
        self._store = store
        self._segments = list(segments)
        self._bases = [segment.base_offset for segment in self._segments]
        self._sealed_bytes: int | None = None
        """The size of all segments but the active one. Kept, because each publishing of a slot needs the total size."""
        self.begun_swap: CleanedFiles | None = None
        """What is to take the place of some, as loading would do now (`replacement`)."""
        self.aborted_on_file: dict[int, int] = {}
        """How many aborted transactions of which segment `kafkad-aborted-transactions` names."""

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

    def holding(self, offset: int) -> Segment | None:
        """The segment that holds `offset`, or would hold it."""
        number = bisect_right(self._bases, offset) - 1
        return self._segments[number] if number >= 0 else None

    def after(self, segment: Segment) -> Segment | None:
        """The next one; None if it is the last, or none of these any more."""
        number = bisect_right(self._bases, segment.base_offset)
        is_here = number > 0 and self._segments[number - 1] is segment
        return self._segments[number] if is_here and number < len(self._segments) else None

    def from_offset(self, offset: int) -> list[Segment]:
        """The segments that hold `offset` or anything after it."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def remove_first(self, count: int) -> tuple[str, ...]:
        """Remove the `count` oldest segments; returns the new names of their files."""
        removed = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        self._sealed_bytes = None
        return self._rename(removed, may_keep_names=True)

    def remove_after(self, offset: int) -> tuple[str, ...]:
        """Remove the segments that start above `offset`, the newest first."""
        keep = bisect_right(self._bases, offset)
        removed = self._segments[keep:]
        del self._segments[keep:], self._bases[keep:]
        self._sealed_bytes = None
        return self._rename(reversed(removed))

    def replace(self, sources: Sequence[Segment], cleaned: Segment) -> tuple[str, ...]:
        """`cleaned` takes the place of neighbours; returns the new names of their files.

        The first one's producer snapshot stays: it says what was before the segment.
        """
        first = self._segments.index(sources[0])
        after = first + len(sources)
        self._segments[first:after] = [cleaned]
        self._bases[first:after] = [cleaned.base_offset]
        self._sealed_bytes = None
        waiting: list[str] = []
        for segment in sources:
            segment.close()
            for name in segment.file_names():
                if name != file_name(cleaned.base_offset, PRODUCER_SNAPSHOT) and self._set_aside(name):
                    waiting.append(name + DELETED)
        return tuple(waiting)

    def move_to(self, store: SegmentStore, config: LogConfig) -> None:
        """The same segments, whose files are in `store` as well; the old ones are closed."""
        # The files of a swap that was begun are where the log was.
        self._store, self.begun_swap = store, None
        self.aborted_on_file = {}
        moved = [segment.moved_to(store, config) for segment in self._segments]
        for segment in self._segments:
            segment.close()
        self._segments = moved

    def _set_aside(self, name: str) -> bool:
        """False if there is no such file, or not any more: without room for the longer name it goes at once."""
        try:
            self._store.rename(name, name + DELETED)
        except FileNotFoundError:
            return False
        except NoSpaceLeft:
            self._store.unlink(name)
            return False
        return True

    def _rename(self, removed: Iterable[Segment], *, may_keep_names: bool = False) -> tuple[str, ...]:
        """The longer name may need room in the directory. Without it, files whose names are never used again keep
        them: after a crash their segments are there once more, below the log start.
        """
        waiting: list[str] = []
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
                    waiting.append(name)
                else:
                    waiting.append(name + DELETED)
        return tuple(waiting)
