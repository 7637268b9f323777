"""A queue for memory: who may take some while others wait?

First come, first served; but small requests may overtake the first in the queue until they have taken as much as it
waits for. So a large request does not hold up all others at once, and does not wait for them for ever.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

W = TypeVar("W", bound=Hashable)


class MemoryQueue(Generic[W]):
    """Callers may read `waiting`: the waiting ones, in order, and the size that each needs."""

    __slots__ = ("_passed", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[W, int] = {}
        self._passed = 0
        """The bytes taken by others while the first in the queue waits."""

    def join(self, who: W, size: int) -> bool:
        """Wait for `size`; False when it is in the queue already."""
        is_new = who not in self.waiting
        self.waiting[who] = size
        return is_new

    def leave(self, who: W) -> None:
        if who in self.waiting:
            if who is next(iter(self.waiting)):
                self._passed = 0
            del self.waiting[who]

    def may_take(self, who: W, size: int) -> bool:
        """Whether `who` is the first in the queue, or `size` is small enough to overtake it."""
        if not self.waiting:
            return True
        first = next(iter(self.waiting))
        return who is first or self._passed + size <= self.waiting[first]

    def took(self, who: W, size: int) -> None:
        """`who` got its memory, and waits no longer."""
        if not self.waiting:
            return
        if who is not next(iter(self.waiting)):
            self._passed += size
        self.leave(who)
