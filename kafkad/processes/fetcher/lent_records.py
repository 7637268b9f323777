"""Which parts of the arena are lent to the owners of logs, until they say that the records are in the log?

An owner performs appends in the order in which it gets them, so its answers give parts back in this order. One that
waits for a sync may be overtaken by later ones: what is given back then is older than what was answered, so that it was
performed as well.
"""

from collections import deque

from kafkad.adapters.shared_memory.arena import Arena

NOTHING = -1


class LentRecords:
    """What each of `workers` workers has."""

    def __init__(self, arena: Arena, workers: int) -> None:
        self._arena = arena
        self._lent: list[deque[int]] = [deque() for _ in range(workers)]

    def lend(self, worker: int, extent: int) -> None:
        """An APPEND goes to the worker; `extent` is NOTHING for one without records."""
        if extent != NOTHING:
            self._arena.retain(extent)
        self._lent[worker].append(extent)

    def freed(self, worker: int) -> None:
        """The worker has answered its oldest APPEND."""
        extent = self._lent[worker].popleft()
        if extent != NOTHING:
            self._arena.release(extent)

    def worker_lost(self, worker: int) -> None:
        """It was reaped, so it uses nothing any more."""
        for _ in range(len(self._lent[worker])):
            self.freed(worker)
