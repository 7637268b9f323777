"""Which requests that have begun hold room that others wait for, and come too slowly to keep it?

Requests are looked at from time to time, only while somebody waits. One that had begun at the look before, and of
which little has come since, is slow; one that could not be read meanwhile is not, unless nothing at all goes on.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

LOOK_MS = 100
SLOW_BYTES = 8 * 1024
"""Less than this between two looks is slow."""
STUCK_BYTES = 256 * 1024
"""Less than this of all requests together: those who wait for room wait for each other."""

R = TypeVar("R", bound=Hashable)


class Begun(NamedTuple, Generic[R]):
    """A request of which `got` bytes are here. It is the `number`-th of `who`; `held` is the room that it takes."""

    who: R
    number: int
    got: int
    held: int
    is_waiting: bool
    """For room, or for requests before it: it is not read."""


class Seen(NamedTuple, Generic[R]):
    """A request that had begun at the look before."""

    begun: Begun[R]
    progress: int
    is_slow: bool


class SlowRequests(Generic[R]):
    """What the last look has seen."""

    def __init__(self) -> None:
        self._looks = 0
        self._seen: dict[R, tuple[int, int, int]] = {}
        """Its number, what was there of it, and the look at which it was first seen."""

    def look(self, begun: Iterable[Begun[R]], came: int) -> list[Seen[R]]:
        """Those of the last look that are not whole yet: those that are read first, and the slowest, and the oldest.

        `came` is what has come of all requests since the last look.
        """
        seen, found = self._seen, list[Seen[R]]()
        now: dict[R, tuple[int, int, int]] = {}
        self._seen = now
        self._looks += 1
        is_stuck = came < STUCK_BYTES
        for each in begun:
            before = seen.get(each.who)
            if before is None or before[0] != each.number:
                now[each.who] = (each.number, each.got, self._looks)
                continue
            now[each.who] = (each.number, each.got, before[2])
            progress = each.got - before[1]
            is_slow = progress < SLOW_BYTES and (is_stuck or not each.is_waiting)
            found.append(Seen(each, progress, is_slow))
        found.sort(key=lambda one: (one.begun.is_waiting, one.progress // 1024, now[one.begun.who][2]))
        return found

    def forget(self) -> None:
        """Nobody waits any more."""
        self._seen = {}


def enough_of(slow: Sequence[Begun[R]], needed: int) -> list[Begun[R]]:
    """As many from the beginning as hold `needed` bytes."""
    taken: list[Begun[R]] = []
    for each in slow:
        if needed <= 0:
            break
        taken.append(each)
        needed -= each.held
    return taken
