"""Which Produce request gets a place in the arena, and which connection has to wait for one?

An incomplete request gets its whole place at once and is received right there. Such requests together take only a part
of the arena, as their clients decide how long the rest takes. Beyond that they are received into private memory and
copied when they are complete, so claimed lengths block no other client. Complete requests may take all of the arena.
They are written soon, so the queue of them moves, whatever clients do.
"""

from kafkad.adapters.shared_memory.arena import Arena
from kafkad.core.waiting.memory_queue import MemoryQueue
from kafkad.processes.network.connections.connection import Connection

UNFINISHED_SHARE = 2
"""Incomplete requests together take one of this many parts of the arena; a single larger one may take more."""


class ArenaPlaces:
    """The places in the arena of a network process."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._most_unfinished = arena.size // UNFINISHED_SHARE
        self.unfinished_bytes = 0
        """Bytes of incomplete requests."""
        self.is_short = False
        """An incomplete request got no place; reset when slow requests are looked at."""
        self.queue: MemoryQueue[Connection] = MemoryQueue()
        """Connections whose complete requests wait for space. Meanwhile no other request begins in the arena."""
        self.times_starved = 0

    def may_begin(self, size: int) -> bool:
        """Whether an incomplete request may get a place, if there is one."""
        taken = self.unfinished_bytes
        if self.queue.waiting or (taken and taken + size > self._most_unfinished):
            self.is_short = True
            return False
        return True

    def begin(self, size: int) -> int | None:
        """A place for the whole of an incomplete request."""
        extent = self._arena.reserve(size)
        if extent is None:
            self.is_short = True
        else:
            self.unfinished_bytes += size
        return extent

    def became_whole(self, size: int) -> None:
        """The request is complete and keeps its place until it is written."""
        self.unfinished_bytes -= size

    def abandon(self, extent: int, size: int) -> None:
        """The request will not be completed, or not in the arena."""
        self.unfinished_bytes -= size
        self._arena.release(extent)

    def take(self, connection: Connection, size: int) -> int | None:
        """A place for a complete request. None when its connection has to wait in the queue."""
        queue = self.queue
        if not queue.may_take(connection, size):
            return None
        extent = self._arena.reserve(size)
        if extent is not None:
            queue.granted(connection, size)
        return extent

    def wait(self, connection: Connection, size: int) -> None:
        self.times_starved += self.queue.join(connection, size)
