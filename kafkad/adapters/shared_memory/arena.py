"""The memory into which one network process reads requests, and from which workers write logs.

The owning network process reserves, retains and releases slices. A worker only reads a slice that it was lent, and
returns it, also on error. `kafkad.core.arena_space` does the bookkeeping in the owner's memory; it starts empty with
each incarnation (chunks of the old incarnation are safe once every worker has marked the new one as seen, see
`process_registry`).
"""

from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.arena_space import ArenaSpace

REQUEST_SLACK = 64 * 1024
"""Room for alignment and header beside the largest legal request."""
RESPONSE_SLACK = 256 * 1024
"""Room beside the records of a leader's answer: its partitions, and the rest of its first batch."""


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
        """Return pages above `keep_bytes` to the kernel after a burst; does nothing while a slice is lent.

        Returns the number of bytes given back.
        """
        if not self._space.is_empty or self._space.peak <= keep_bytes:
            return 0
        surplus = self._space.peak - keep_bytes
        self._region.punch(keep_bytes, surplus)
        self._space.forget_peak()
        return surplus
