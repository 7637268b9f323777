"""The memory into which one network process reads requests, and which workers write logs from.

The owning network process reserves, retains and releases; a worker only looks at a slice that it was lent and
says when it is done. Whoever is lent a slice returns it, also on error. The bookkeeping is
`kafkad.core.arena_space`; it lives in the owner's memory and starts empty with each incarnation of it (chunks of the
old incarnation are safe once every worker has marked the new incarnation as seen, see process registry).
"""

from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.arena_space import ArenaSpace

REQUEST_SLACK = 64 * 1024
"""Room for alignment and header beside the largest legal request."""


def arena_bytes(configured: int, largest_request: int) -> int:
    """The size of an arena: the largest legal request always fits an empty one."""
    return max(configured, largest_request + REQUEST_SLACK)


class Arena:
    """`view` is all of it; an extent reserved at `offset` is `view[offset:offset + length]`."""

    __slots__ = ("_region", "_space", "release", "reserve", "retain", "view")

    def __init__(self, region: SharedRegion) -> None:
        self._region = region
        self._space = ArenaSpace(region.size)
        self.view = region.view
        # Bound once: they are called for each produce request.
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
        """Give the kernel back what a burst touched above `keep_bytes`; nothing while anything is lent out.

        Returns the number of bytes given back.
        """
        if not self._space.is_empty or self._space.peak <= keep_bytes:
            return 0
        surplus = self._space.peak - keep_bytes
        self._region.punch(keep_bytes, surplus)
        self._space.forget_peak()
        return surplus
