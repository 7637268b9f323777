"""How much memory may requests take that are not received into the arena, and who has to wait for some?

No length that a client claims is believed: a request takes room as its bytes arrive, in steps. Beyond the limit
connections wait in line, unread, and one at a time may go on: all of it together is never more than the limit and
one largest request. Who holds room for long without going on is `slow_requests`'s.
"""

from collections.abc import Callable, Iterable

from kafkad.processes.network.connections.connection import Connection

FIRST_STEP_BYTES = 16 * 1024
COUNTED_HEAD_BYTES = 1024
"""The beginning of a small request counts if it is longer: ten thousand clients may have one each."""


class RequestMemory:
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

    @property
    def surplus(self) -> int:
        """How much more is held than leaves half of the limit to those who come."""
        return self.used - self._limit // 2

    @property
    def is_short(self) -> bool:
        """Somebody waits, or would have to."""
        return bool(self.crowded) or self.used > self._limit

    @property
    def holders(self) -> Iterable[Connection]:
        return self._held

    def held_by(self, connection: Connection) -> int:
        return self._held.get(connection, 0)

    def grow(self, connection: Connection, size: int) -> bool:
        """Let its request hold `size` bytes; False: the connection has to wait in line."""
        if not self._may(connection, size):
            self.crowded[connection] = None
            return False
        self.hold(connection, size)
        self.crowded.pop(connection, None)
        return True

    def take(self, connection: Connection, size: int) -> bool:
        """As `grow`, for what need not be: nobody waits for it, and nobody goes beyond the limit."""
        if self.used + self._elsewhere() + size > self._limit:
            return False
        self.hold(connection, size)
        return True

    def hold(self, connection: Connection, size: int) -> None:
        """It holds `size` bytes, which have arrived already."""
        self.used += size - self._held.get(connection, 0)
        self._held[connection] = size

    def let_go(self, connection: Connection) -> None:
        """It holds nothing now; it may wait for some still."""
        self.used -= self._held.pop(connection, 0)

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
        self.let_go(connection)
        self.crowded.pop(connection, None)
        if connection is self._goes_on:
            self._goes_on = None


def next_step(got: int, total: int) -> int:
    """The room for a request of which `got` of `total` bytes are here: at most as much again as has arrived."""
    return min(total, max(FIRST_STEP_BYTES, 2 * got))
