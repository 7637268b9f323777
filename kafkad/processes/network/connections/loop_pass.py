"""The limits of one loop pass for a connection, and the connections that continue at the end of the pass."""

from kafkad.processes.network.connections.connection import Connection

PASS_BYTES = 1 << 20
"""Bytes that are received from one connection in one pass."""
REQUESTS_PER_PASS = 32
"""Requests of one read that are started in a pass."""
PRODUCES_PER_PASS = 8
"""The same for Produce: more than idempotent clients have in flight. After a Produce that closes its connection
(acks=0) the worker gets no more than these."""
WORK_PER_PASS_BYTES = 8 * 1024
"""Bytes of requests and replies after which no further request is started."""
CONTINUED_PER_PASS = 8
"""Waiting connections that continue in one pass: new connections do not wait for all of them."""


def exceeds_pass(count: int, handled_bytes: int, *, is_produce: bool) -> bool:
    """Whether the `count`-th request waits for the next pass; `handled_bytes` counts earlier requests and replies."""
    if is_produce:
        return count > PRODUCES_PER_PASS
    return count > REQUESTS_PER_PASS or (count > 1 and handled_bytes > WORK_PER_PASS_BYTES)


class ReadyConnections:
    """Connections with a ready reply, or that may continue. Each is here once, in order."""

    __slots__ = ("_connections",)

    def __init__(self) -> None:
        self._connections: dict[Connection, None] = {}

    def __bool__(self) -> bool:
        return bool(self._connections)

    def add(self, connection: Connection) -> None:
        self._connections[connection] = None

    def take(self) -> dict[Connection, None]:
        """Take all connections; those that become ready from now on are taken the next time."""
        taken, self._connections = self._connections, {}
        return taken
