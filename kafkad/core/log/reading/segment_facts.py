"""Facts about the segments of one generation, which save opening them again.

Facts about a complete segment stay true: readers of the same generation share them, in all threads, and the next
generation keeps those of segments that are still there.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence

from kafkad.core.log.segments.manifest import LogManifest


class SegmentFacts:
    """Largest timestamps, and which segments have no transaction index."""

    __slots__ = ("_perhaps_indexed", "max_timestamps")

    def __init__(self, manifest: LogManifest) -> None:
        self.max_timestamps: dict[int, int] = {}
        """Of complete segments, by base offset."""
        self._perhaps_indexed: Sequence[int] = manifest.segment_bases
        """Segments that have, or may have, a transaction index; the set is replaced, never changed."""

    def perhaps_indexed(self, from_base: int) -> Sequence[int]:
        """The segments from `from_base` on that have, or may have, a transaction index."""
        bases = self._perhaps_indexed
        return bases[bisect_left(bases, from_base) :]

    def have_no_index(self, bases: Collection[int]) -> None:
        """These are complete, and without aborted transactions."""
        self._perhaps_indexed = tuple(base for base in self._perhaps_indexed if base not in bases)

    def take_over(self, earlier: "SegmentFacts", before: LogManifest, now: LogManifest) -> None:
        """Take over the previous generation's facts about segments that are still there."""
        if not now.continues(before):
            return
        kept = set(now.segment_bases[:-1])
        self.max_timestamps.update((base, time) for base, time in earlier.max_timestamps.items() if base in kept)
        unknown = set(earlier._perhaps_indexed)
        self.have_no_index({base for base in before.segment_bases if base not in unknown})
