"""How much memory may requests outside of the arena take, and which connection has to wait for some?

A claimed length reserves nothing: a request takes memory as its bytes arrive, in steps. Beyond the limit connections
wait in line, unread, and one at a time may go on: the total never exceeds the limit plus one largest request.
`slow_request_eviction` handles connections that hold memory for long.
"""

from collections.abc import Callable, Iterable

from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.frames import Unacceptable

FIRST_STEP_BYTES = 16 * 1024
COUNTED_HEAD_BYTES = 1024
"""A small incomplete request counts from this size on: ten thousand clients may have one each."""


class RequestMemory:
    """The memory of each connection's incomplete request. `elsewhere` is that of complete, unanswered ones."""

    def __init__(self, limit: int, elsewhere: Callable[[], int]) -> None:
        self._limit = limit
        self._elsewhere = elsewhere
        self._held: dict[Connection, int] = {}
        self._continues: Connection | None = None
        """The connection that may exceed the limit."""
        self.used = 0
        self.crowded: dict[Connection, None] = {}
        """Waiting connections, in order."""

    @property
    def surplus(self) -> int:
        """The bytes by which incomplete requests hold more than half of the limit."""
        return self.used - self._limit // 2

    @property
    def is_short(self) -> bool:
        """A connection waits, or the next one would have to."""
        return bool(self.crowded) or self.used > self._limit

    @property
    def holders(self) -> Iterable[Connection]:
        return self._held

    def held_by(self, connection: Connection) -> int:
        return self._held.get(connection, 0)

    def grow(self, connection: Connection, size: int) -> bool:
        """Let its request hold `size` bytes; False when the connection has to wait in line."""
        if not self._may(connection, size):
            self.crowded[connection] = None
            return False
        self.hold(connection, size)
        self.crowded.pop(connection, None)
        return True

    def take(self, connection: Connection, size: int) -> bool:
        """As `grow`, but optional: the connection does not wait for it, and it never exceeds the limit."""
        if self.used + self._elsewhere() + size > self._limit:
            return False
        self.hold(connection, size)
        return True

    def hold(self, connection: Connection, size: int) -> None:
        """Count `size` bytes, which have arrived already."""
        self.used += size - self._held.get(connection, 0)
        self._held[connection] = size

    def drop(self, connection: Connection) -> None:
        """It holds nothing now; it may still wait in line."""
        self.used -= self._held.pop(connection, 0)

    def _may(self, connection: Connection, size: int) -> bool:
        if connection is self._continues:
            return True
        if self.crowded and next(iter(self.crowded)) is not connection:
            return False
        if self.used + self._elsewhere() + size - self._held.get(connection, 0) <= self._limit:
            return True
        if self._continues is None:
            self._continues = connection
        return connection is self._continues

    def release(self, connection: Connection) -> None:
        """Its request is complete, or never will be."""
        self.drop(connection)
        self.crowded.pop(connection, None)
        if connection is self._continues:
            self._continues = None


def next_step(got: int, total: int) -> int:
    """The memory for a request of which `got` of `total` bytes are here: at most twice what has arrived."""
    return min(total, max(FIRST_STEP_BYTES, 2 * got))


def memory_for(size: int) -> bytearray:
    """Where the machine has none, the request costs its own connection."""
    try:
        return bytearray(size)
    except MemoryError:
        raise Unacceptable(f"there is no memory for {size} bytes of a request") from None
