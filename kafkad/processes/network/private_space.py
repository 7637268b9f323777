"""How much memory may requests take that are not received into the arena, and who has to wait for some?

No length that a client claims is believed: a request takes room as its bytes arrive, in steps. Beyond the limit
connections wait in line, unread, and one at a time may go on: so the line always moves, and all of it together is
never more than the limit and one largest request.
"""

from collections.abc import Callable

from kafkad.processes.network.connection import Connection

FIRST_STEP_BYTES = 16 * 1024


class PrivateSpace:
    """What each connection's unfinished request holds. `elsewhere` is what whole ones hold that are not answered."""

    def __init__(self, limit: int, elsewhere: Callable[[], int]) -> None:
        self._limit = limit
        self._elsewhere = elsewhere
        self._held: dict[Connection, int] = {}
        self._goes_on: Connection | None = None
        """The one that may take more than there is."""
        self.used = 0
        self.crowded: dict[Connection, None] = {}
        """Connections that wait, in order."""

    def grow(self, connection: Connection, size: int) -> bool:
        """Let its request hold `size` bytes; False: the connection has to wait in line."""
        if not self._may(connection, size):
            self.crowded[connection] = None
            return False
        self.used += size - self._held.get(connection, 0)
        self._held[connection] = size
        self.crowded.pop(connection, None)
        return True

    def _may(self, connection: Connection, size: int) -> bool:
        if connection is self._goes_on:
            return True
        if self.crowded and next(iter(self.crowded)) is not connection:
            return False
        if self.used + self._elsewhere() + size - self._held.get(connection, 0) <= self._limit:
            return True
        if self._goes_on is None:
            self._goes_on = connection
        return connection is self._goes_on

    def release(self, connection: Connection) -> None:
        """Its request is whole, or will never be."""
        self.used -= self._held.pop(connection, 0)
        self.crowded.pop(connection, None)
        if connection is self._goes_on:
            self._goes_on = None


def next_step(got: int, total: int) -> int:
    """The room for a request of which `got` of `total` bytes are here: at most as much again as has arrived."""
    return min(total, max(FIRST_STEP_BYTES, 2 * got))
