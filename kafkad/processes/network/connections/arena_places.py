"""The allocation of arena space for Produce requests, and the queue of connections that wait for space.

An incomplete request gets its whole space at once and is received right there. Such requests together get only a part
of the arena, as their clients decide how long the rest takes. Beyond that they are received into private memory and
copied when they are complete, so claimed lengths block no other client. Complete requests may fill the whole arena:
they are written soon, so their queue always moves.
"""

from kafkad.adapters.shared_memory.arena import Arena
from kafkad.core.waiting.memory_queue import MemoryQueue
from kafkad.processes.network.connections.connection import Connection

UNFINISHED_SHARE = 2
"""Incomplete requests together get 1/n of the arena; a single larger request may get more."""


class ArenaPlaces:
    """The arena space of a network process."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._most_unfinished = arena.size // UNFINISHED_SHARE
        self.unfinished_bytes = 0
        """Bytes of incomplete requests."""
        self.is_short = False
        """Whether an incomplete request got no space; reset by the check of slow requests."""
        self.queue: MemoryQueue[Connection] = MemoryQueue()
        """Connections whose complete requests wait for space. Meanwhile no other request gets space."""
        self.times_starved = 0

    def may_begin(self, size: int) -> bool:
        """Whether an incomplete request may get free space."""
        used = self.unfinished_bytes
        if self.queue.waiting or (used and used + size > self._most_unfinished):
            self.is_short = True
            return False
        return True

    def begin(self, size: int) -> int | None:
        """Allocate the whole space of an incomplete request."""
        extent = self._arena.reserve(size)
        if extent is None:
            self.is_short = True
        else:
            self.unfinished_bytes += size
        return extent

    def completed(self, size: int) -> None:
        """The request is complete and keeps its space until it is written."""
        self.unfinished_bytes -= size

    def abandon(self, extent: int, size: int) -> None:
        """Release the space of an incomplete request."""
        self.unfinished_bytes -= size
        self._arena.release(extent)

    def take(self, connection: Connection, size: int) -> int | None:
        """Allocate space for a complete request. None when its connection has to wait in the queue."""
        queue = self.queue
        if not queue.may_take(connection, size):
            return None
        extent = self._arena.reserve(size)
        if extent is not None:
            queue.granted(connection, size)
        return extent

    def wait(self, connection: Connection, size: int) -> None:
        self.times_starved += self.queue.join(connection, size)
