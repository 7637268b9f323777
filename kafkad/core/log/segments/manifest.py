"""Which state of a log do readers need in addition to the shared slot? Requested from the owner once per generation."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogManifest:
    """The segments and leader epochs of one generation; the slot has all state that appends change."""

    generation: int
    segment_bases: tuple[int, ...]
    epochs: tuple[tuple[int, int], ...]
    """(epoch, start offset), both ascending."""
    rewrites: int = 0
    """The number of replacements by cleaned segments, after which the same name is another file."""
    directory: str = ""
    """The directory of the files, set by the owner's process; the core never reads it."""

    def segment_number(self, offset: int) -> int:
        """The number of the segment with the greatest base offset ≤ `offset`; -1 before the first."""
        return bisect_right(self.segment_bases, offset) - 1

    def has_segment(self, base_offset: int) -> bool:
        at = bisect_left(self.segment_bases, base_offset)
        return at < len(self.segment_bases) and self.segment_bases[at] == base_offset

    def is_sealed(self, base_offset: int) -> bool:
        """Whether the segment is not the active one."""
        return base_offset != self.segment_bases[-1]

    def continues(self, before: "LogManifest") -> bool:
        """Whether this is the log of `before` with segments added or removed, but not rewritten."""
        if self.rewrites != before.rewrites:
            return False
        count = min(len(self.epochs), len(before.epochs))
        if count == 0:
            return len(self.epochs) == len(before.epochs)
        mine, earlier = self.epochs[-count:], before.epochs[-count:]
        # The start offset of the oldest epoch changes with the log start offset.
        return mine[0][0] == earlier[0][0] and mine[1:] == earlier[1:]

    def leader_epoch_at(self, offset: int) -> int:
        """The leader epoch of `offset`; -1 if unknown."""
        number = bisect_right(self.epochs, offset, key=lambda entry: entry[1]) - 1
        return self.epochs[number][0] if number >= 0 else -1
