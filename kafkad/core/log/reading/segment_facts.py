"""Cached facts about the segments of one generation, which save opening the files again.

Facts about a complete segment stay true: all readers and threads of a generation share them, and the next generation
keeps the facts about its remaining segments.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence

from kafkad.core.log.segments.manifest import LogManifest


class SegmentFacts:
    """Largest timestamps of segments, and segments without a transaction index."""

    __slots__ = ("_possibly_indexed", "max_timestamps")

    def __init__(self, manifest: LogManifest) -> None:
        self.max_timestamps: dict[int, int] = {}
        """Of complete segments, by base offset."""
        self._possibly_indexed: Sequence[int] = manifest.segment_bases
        """Segments that may have a transaction index; replaced, never changed in place."""

    def possibly_indexed(self, from_base: int) -> Sequence[int]:
        """The segments from `from_base` on that may have a transaction index."""
        bases = self._possibly_indexed
        return bases[bisect_left(bases, from_base) :]

    def mark_unindexed(self, bases: Collection[int]) -> None:
        """Record complete segments without aborted transactions."""
        self._possibly_indexed = tuple(base for base in self._possibly_indexed if base not in bases)

    def inherit(self, earlier: "SegmentFacts", before: LogManifest, now: LogManifest) -> None:
        """Copy the previous generation's facts about remaining segments."""
        if not now.continues(before):
            return
        kept = set(now.segment_bases[:-1])
        self.max_timestamps.update((base, time) for base, time in earlier.max_timestamps.items() if base in kept)
        possibly_indexed = set(earlier._possibly_indexed)
        self.mark_unindexed({base for base in before.segment_bases if base not in possibly_indexed})
