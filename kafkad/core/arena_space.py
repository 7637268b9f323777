"""Allocates extents of an arena, and counts their references.

First fit from the lowest address, so that the same few pages stay in the processor's cache. Invariant: live and free
extents never overlap, together they cover the arena, and no two free extents are adjacent. The bytes are kept
elsewhere.
"""

from bisect import bisect_left

ALIGNMENT = 64
"""A cache line: two requests never share one."""


class ArenaSpace:
    """The extents of `size` bytes. An extent is identified by its offset, and starts with one reference."""

    __slots__ = ("_free_lengths", "_free_starts", "_live", "_more_references", "free_bytes", "peak", "size")

    def __init__(self, size: int) -> None:
        self.size = size // ALIGNMENT * ALIGNMENT
        self.free_bytes = self.size
        self.peak = 0
        """The end of the highest extent since `forget_peak`: the bytes above have not been used."""
        self._free_starts = [0] if self.size else []
        self._free_lengths = [self.size] if self.size else []
        self._live: dict[int, int] = {}
        # Nearly all extents have one reference: only additional ones are counted.
        self._more_references: dict[int, int] = {}

    @property
    def used_bytes(self) -> int:
        return self.size - self.free_bytes

    @property
    def is_empty(self) -> bool:
        return not self._live

    def reserve(self, length: int) -> int | None:
        """The offset of `length` free bytes, now with one reference; None without a free extent of this length."""
        required = (length + 63) & -64 or ALIGNMENT
        if required > self.free_bytes:
            return None
        lengths = self._free_lengths
        index = 0
        if lengths[0] < required:
            index = next((at for at, free in enumerate(lengths) if free >= required), -1)
            if index < 0:
                return None
        free = lengths[index]
        starts = self._free_starts
        offset = starts[index]
        end = offset + required
        if free == required:
            del starts[index], lengths[index]
        else:
            starts[index] = end
            lengths[index] = free - required
        self._live[offset] = required
        self.free_bytes -= required
        if end > self.peak:
            self.peak = end
        return offset

    def retain(self, offset: int) -> None:
        """Add a reference to the live extent at `offset`."""
        assert offset in self._live, f"no live extent at offset {offset}"
        self._more_references[offset] = self._more_references.get(offset, 0) + 1

    def release(self, offset: int) -> bool:
        """Remove a reference; True if it was the last one, and the bytes are free again."""
        more = self._more_references
        if offset in more:
            if more[offset] == 1:
                del more[offset]
            else:
                more[offset] -= 1
            return False
        length = self._live.pop(offset, 0)
        assert length, f"no live extent at offset {offset}"
        self.free_bytes += length
        self._insert_free(offset, length)
        return True

    def _insert_free(self, offset: int, length: int) -> None:
        starts, lengths = self._free_starts, self._free_lengths
        index = bisect_left(starts, offset)
        joins_next = index < len(starts) and starts[index] == offset + length
        if index and starts[index - 1] + lengths[index - 1] == offset:
            lengths[index - 1] += length
            if joins_next:
                lengths[index - 1] += lengths[index]
                del starts[index], lengths[index]
        elif joins_next:
            starts[index] = offset
            lengths[index] += length
        else:
            starts.insert(index, offset)
            lengths.insert(index, length)

    def forget_peak(self) -> None:
        """Start `peak` again from the live extents."""
        self.peak = max((offset + length for offset, length in self._live.items()), default=0)

    def extents(self) -> dict[int, int]:
        """Offset and aligned length of all live extents, for tests."""
        return dict(self._live)
