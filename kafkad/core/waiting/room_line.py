"""Who may take room, while others wait for some that came before?

First come, first served; but smaller ones may pass by the first in line until they have taken as much as it waits
for. So one who needs much room does not hold up all others at once, and is not kept waiting for ever by them.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

W = TypeVar("W", bound=Hashable)


class RoomLine(Generic[W]):
    """`waiting` is read by others: who waits, in order, and for how much."""

    __slots__ = ("_passed", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[W, int] = {}
        self._passed = 0
        """What was taken past the first in line."""

    def join(self, who: W, size: int) -> bool:
        """Wait for `size`; False when it does already."""
        is_new = who not in self.waiting
        self.waiting[who] = size
        return is_new

    def leave(self, who: W) -> None:
        if who in self.waiting:
            if who is next(iter(self.waiting)):
                self._passed = 0
            del self.waiting[who]

    def may_take(self, who: W, size: int) -> bool:
        """Whether it is the turn of `who`, or `size` is little enough to pass by the first."""
        if not self.waiting:
            return True
        first = next(iter(self.waiting))
        return who is first or self._passed + size <= self.waiting[first]

    def took(self, who: W, size: int) -> None:
        """It has its room, and waits no longer."""
        if not self.waiting:
            return
        if who is not next(iter(self.waiting)):
            self._passed += size
        self.leave(who)
