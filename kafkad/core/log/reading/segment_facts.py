"""What is known of the segments of one generation without opening them again.

Learnt by whoever looked first, in whichever thread: a fact about a segment that is complete stays true, so that readers
of the same generation share them, and a later generation takes over what it still has.
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
        """Segments that have a transaction index, or of which it is not known; never changed, only replaced."""

    def perhaps_indexed(self, from_base: int) -> Sequence[int]:
        """The segments from `from_base` on whose transaction index has to be looked for."""
        bases = self._perhaps_indexed
        return bases[bisect_left(bases, from_base) :]

    def have_no_index(self, bases: Collection[int]) -> None:
        """These are complete, and without aborted transactions."""
        self._perhaps_indexed = tuple(base for base in self._perhaps_indexed if base not in bases)

    def take_over(self, earlier: "SegmentFacts", before: LogManifest, now: LogManifest) -> None:
        """What a reader of the generation before has learnt, of the segments that are still there."""
        if not now.goes_on(before):
            return
        kept = set(now.segment_bases[:-1])
        self.max_timestamps.update((base, time) for base, time in earlier.max_timestamps.items() if base in kept)
        unknown = set(earlier._perhaps_indexed)
        self.have_no_index({base for base in before.segment_bases if base not in unknown})
