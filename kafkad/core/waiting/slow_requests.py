"""Which partly received requests hold memory that others wait for, and arrive too slowly to keep it?

Requests are checked at intervals, only while others wait for memory. A request that had begun at the check before, and
of which few bytes have arrived since, is slow. One that was not read meanwhile is not slow, unless all are stuck.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

CHECK_INTERVAL_MS = 100
SLOW_BYTES = 8 * 1024
"""Fewer bytes than this between two checks are slow."""
STUCK_BYTES = 256 * 1024
"""Fewer bytes than this of all requests together: the requests that wait for memory wait for each other."""

R = TypeVar("R", bound=Hashable)


class Transfer(NamedTuple, Generic[R]):
    """A request that is being received, or replies that are being sent: `got` bytes have moved so far.

    It is the `number`-th of `who`, and takes `held` bytes of memory.
    """

    who: R
    number: int
    got: int
    held: int
    is_waiting: bool
    """It waits for memory, or for requests before it, so it is not read."""


class CheckedTransfer(NamedTuple, Generic[R]):
    """A transfer that had begun at the check before."""

    begun: Transfer[R]
    progress: int
    is_slow: bool


class SlowRequests(Generic[R]):
    """The state as of the last check."""

    def __init__(self) -> None:
        self._looks = 0
        self._seen: dict[R, tuple[int, int, int]] = {}
        """For each: number, bytes received, and the check at which it was first seen."""

    def look(self, begun: Iterable[Transfer[R]], came: int) -> list[CheckedTransfer[R]]:
        """The requests of the last check that are still incomplete: those being read first, then by progress and age.

        `came` is the number of bytes of all requests that have arrived since the last check.
        """
        seen, found = self._seen, list[CheckedTransfer[R]]()
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
            found.append(CheckedTransfer(each, progress, is_slow))
        found.sort(key=lambda one: (one.begun.is_waiting, one.progress // 1024, now[one.begun.who][2]))
        return found

    def forget(self) -> None:
        """No request waits for memory any more."""
        self._seen = {}


def enough_of(slow: Sequence[Transfer[R]], needed: int) -> list[Transfer[R]]:
    """The first ones that together hold `needed` bytes."""
    taken: list[Transfer[R]] = []
    for each in slow:
        if needed <= 0:
            break
        taken.append(each)
        needed -= each.held
    return taken
