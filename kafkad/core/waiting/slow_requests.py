"""Which partly received requests hold memory that others wait for, and are too slow to keep it?

Requests are checked at intervals, only while others wait for memory. A request is slow if it was incomplete at the
previous check and received few bytes since. A request that was not read meanwhile is not slow, unless all are stuck.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

CHECK_INTERVAL_MS = 100
SLOW_BYTES = 8 * 1024
"""A request with fewer bytes between two checks is slow."""
STUCK_BYTES = 256 * 1024
"""With fewer bytes of all requests together they are stuck: they wait for each other's memory."""

Owner = TypeVar("Owner", bound=Hashable)


class Transfer(NamedTuple, Generic[Owner]):
    """A request in receipt, or replies in transmission, of `owner`: its `number`-th, with `moved_bytes` so far.

    The transfer takes `held_bytes` of memory.
    """

    owner: Owner
    number: int
    moved_bytes: int
    held_bytes: int
    is_waiting: bool
    """Not read at present, because it waits for memory or for earlier requests."""


class CheckedTransfer(NamedTuple, Generic[Owner]):
    """A transfer that was incomplete at the previous check too."""

    transfer: Transfer[Owner]
    progress: int
    is_slow: bool


class SlowRequests(Generic[Owner]):
    """The state of the last check."""

    def __init__(self) -> None:
        self._checks = 0
        self._last: dict[Owner, tuple[int, int, int]] = {}
        """By owner: number, moved bytes, and the number of the first check."""

    def check(self, incomplete: Iterable[Transfer[Owner]], arrived_bytes: int) -> list[CheckedTransfer[Owner]]:
        """The requests of the last check that are still incomplete: read ones first, then by progress and age.

        `arrived_bytes` is the number of bytes of all requests since the last check.
        """
        last, found = self._last, list[CheckedTransfer[Owner]]()
        now: dict[Owner, tuple[int, int, int]] = {}
        self._last = now
        self._checks += 1
        is_stuck = arrived_bytes < STUCK_BYTES
        for transfer in incomplete:
            previous = last.get(transfer.owner)
            if previous is None or previous[0] != transfer.number:
                now[transfer.owner] = (transfer.number, transfer.moved_bytes, self._checks)
                continue
            now[transfer.owner] = (transfer.number, transfer.moved_bytes, previous[2])
            progress = transfer.moved_bytes - previous[1]
            is_slow = progress < SLOW_BYTES and (is_stuck or not transfer.is_waiting)
            found.append(CheckedTransfer(transfer, progress, is_slow))
        found.sort(key=lambda row: (row.transfer.is_waiting, row.progress // 1024, now[row.transfer.owner][2]))
        return found

    def reset(self) -> None:
        """Drop the last check: no request waits for memory."""
        self._last = {}


def select_for_bytes(slow: Sequence[Transfer[Owner]], needed: int) -> list[Transfer[Owner]]:
    """The first transfers that together hold `needed` bytes."""
    selected: list[Transfer[Owner]] = []
    for transfer in slow:
        if needed <= 0:
            break
        selected.append(transfer)
        needed -= transfer.held_bytes
    return selected
