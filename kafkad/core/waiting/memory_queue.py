"""A queue for memory: may a request take some while others wait?

First come, first served; but small requests may overtake the first in the queue until they have taken as much as it
waits for. So a large request neither blocks all others at once nor waits for ever.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)


class MemoryQueue(Generic[Owner]):
    """Callers may read `waiting`: the waiting owners, in order, with their requested sizes."""

    __slots__ = ("_overtaken_bytes", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Owner, int] = {}
        self._overtaken_bytes = 0
        """The bytes that others took while the first in the queue waits."""

    def join(self, owner: Owner, size: int) -> bool:
        """Wait for `size` bytes; False if `owner` waits already."""
        is_new = owner not in self.waiting
        self.waiting[owner] = size
        return is_new

    def leave(self, owner: Owner) -> None:
        if owner in self.waiting:
            if owner is next(iter(self.waiting)):
                self._overtaken_bytes = 0
            del self.waiting[owner]

    def may_take(self, owner: Owner, size: int) -> bool:
        """Whether `owner` is first in the queue, or `size` is small enough to overtake the first."""
        if not self.waiting:
            return True
        first = next(iter(self.waiting))
        return owner is first or self._overtaken_bytes + size <= self.waiting[first]

    def granted(self, owner: Owner, size: int) -> None:
        """`owner` has got its memory, and leaves the queue."""
        if not self.waiting:
            return
        if owner is not next(iter(self.waiting)):
            self._overtaken_bytes += size
        self.leave(owner)
