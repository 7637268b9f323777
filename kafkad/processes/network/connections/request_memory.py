"""The limit of memory for requests outside the arena, and the queue of connections that wait for memory.

A claimed length reserves nothing: the memory of a request grows in steps as its bytes arrive. Beyond the limit
connections are queued, unread, and one at a time may continue: the total never exceeds the limit plus one largest
request. `slow_request_eviction` handles connections that hold memory for long.
"""

from collections.abc import Callable, Iterable

from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.frames import Unacceptable

FIRST_STEP_BYTES = 16 * 1024
COUNTED_HEAD_BYTES = 1024
"""Incomplete requests below this size are not counted."""


class RequestMemory:
    """The memory of each connection's incomplete request. `elsewhere` returns the memory of complete, pending ones."""

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
        """Whether a connection waits, or the next one would have to."""
        return bool(self.crowded) or self.used > self._limit

    @property
    def holders(self) -> Iterable[Connection]:
        return self._held

    def held_by(self, connection: Connection) -> int:
        return self._held.get(connection, 0)

    def grow(self, connection: Connection, size: int) -> bool:
        """Let the request hold `size` bytes; False when the connection has to wait."""
        if not self._may(connection, size):
            self.crowded[connection] = None
            return False
        self.hold(connection, size)
        self.crowded.pop(connection, None)
        return True

    def take(self, connection: Connection, size: int) -> bool:
        """As `grow`, but the connection does not wait, and the limit is never exceeded."""
        if self.used + self._elsewhere() + size > self._limit:
            return False
        self.hold(connection, size)
        return True

    def hold(self, connection: Connection, size: int) -> None:
        """Count `size` received bytes."""
        self.used += size - self._held.get(connection, 0)
        self._held[connection] = size

    def drop(self, connection: Connection) -> None:
        """The connection holds no memory now; it may still be queued."""
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
        """The request of the connection is complete or aborted."""
        self.drop(connection)
        self.crowded.pop(connection, None)
        if connection is self._continues:
            self._continues = None


def next_step(got: int, total: int) -> int:
    """The memory for a request with `got` of `total` bytes: at most twice the received bytes."""
    return min(total, max(FIRST_STEP_BYTES, 2 * got))


def memory_for(size: int) -> bytearray:
    """Allocate memory. Raises Unacceptable if the machine has none."""
    try:
        return bytearray(size)
    except MemoryError:
        raise Unacceptable(f"not enough memory for {size} bytes of a request") from None
