"""Which Produce gets a place in the arena, and who has to wait for one?

One that has only begun gets all of its place at once, to be received right there; but such requests take no more
than a share of the arena together, as how long their rest takes is up to their clients. Beyond it they are received
into private memory, and copied when they are whole: what clients claim holds nobody up. Whole ones may take all that
is there. They are written soon, so a line of them moves, whatever clients do.
"""

from kafkad.adapters.shared_memory.arena import Arena
from kafkad.core.waiting.room_line import RoomLine
from kafkad.processes.network.connections.connection import Connection

UNFINISHED_SHARE = 2
"""Unfinished requests take one of so many parts of the arena, unless it is one alone that is larger."""


class ArenaPlaces:
    """The arena of a network process, as given out to requests."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._most_unfinished = arena.size // UNFINISHED_SHARE
        self.unfinished_bytes = 0
        """Claimed by requests that have begun."""
        self.is_short = False
        """Somebody who has begun got no place; until it is looked who holds them."""
        self.line: RoomLine[Connection] = RoomLine()
        """Connections whose whole requests wait for space. While there are any, no other begins in the arena."""
        self.times_starved = 0

    def may_begin(self, size: int) -> bool:
        """Whether a request that has begun may have a place, if there is one."""
        taken = self.unfinished_bytes
        if self.line.waiting or (taken and taken + size > self._most_unfinished):
            self.is_short = True
            return False
        return True

    def begin(self, size: int) -> int | None:
        """A place for all of a request that has begun."""
        extent = self._arena.reserve(size)
        if extent is None:
            self.is_short = True
        else:
            self.unfinished_bytes += size
        return extent

    def became_whole(self, size: int) -> None:
        """The place stays the request's until it is written."""
        self.unfinished_bytes -= size

    def abandon(self, extent: int, size: int) -> None:
        """The request will not be whole, or not here."""
        self.unfinished_bytes -= size
        self._arena.release(extent)

    def take(self, connection: Connection, size: int) -> int | None:
        """A place for a whole request; None: its connection has to wait in line."""
        line = self.line
        if not line.may_take(connection, size):
            return None
        extent = self._arena.reserve(size)
        if extent is not None:
            line.took(connection, size)
        return extent

    def wait(self, connection: Connection, size: int) -> None:
        self.times_starved += self.line.join(connection, size)
