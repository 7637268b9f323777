"""The memory into which one network process receives requests, and from which workers write logs.

The network process reserves, retains and releases slices. A worker only reads slices of its requests, and its response
returns them, also on error. `kafkad.core.arena_space` is the allocator, in the memory of the network process; each
incarnation starts with an empty arena (its memory may be reused when every worker has marked the new incarnation as
seen, see `process_registry`).
"""

from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.arena_space import ArenaSpace

REQUEST_SLACK = 64 * 1024
"""Space for alignment and header beside the largest allowed request."""
RESPONSE_SLACK = 256 * 1024
"""Space beside the records of a leader's response: the partitions, and the rest of the first batch."""


def arena_bytes(configured: int, largest_request: int) -> int:
    """The size of an arena; the largest allowed request fits into an empty arena."""
    return max(configured, largest_request + REQUEST_SLACK)


class Arena:
    """`view` is the whole memory; an extent reserved at `offset` is `view[offset:offset + length]`."""

    __slots__ = ("_region", "_space", "release", "reserve", "retain", "view")

    def __init__(self, region: SharedRegion) -> None:
        self._region = region
        self._space = ArenaSpace(region.size)
        self.view = region.view
        # Bound methods, because they are called for each produce request.
        self.reserve = self._space.reserve
        self.retain = self._space.retain
        self.release = self._space.release

    @property
    def size(self) -> int:
        return self._space.size

    @property
    def free_bytes(self) -> int:
        return self._space.free_bytes

    @property
    def used_bytes(self) -> int:
        return self._space.used_bytes

    @property
    def is_empty(self) -> bool:
        return self._space.is_empty

    def trim(self, keep_bytes: int) -> int:
        """Release the pages above `keep_bytes` to the kernel after a burst, if no slice is reserved.

        Returns the number of released bytes.
        """
        if not self._space.is_empty or self._space.peak <= keep_bytes:
            return 0
        surplus = self._space.peak - keep_bytes
        self._region.punch(keep_bytes, surplus)
        self._space.forget_peak()
        return surplus
