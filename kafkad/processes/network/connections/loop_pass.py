"""A pass of the loop: how much it handles of one connection, and which connections it continues at its end."""

from kafkad.processes.network.connections.connection import Connection

PASS_BYTES = 1 << 20
"""Bytes that are received from one connection in one pass."""
REQUESTS_OF_A_PASS = 32
"""Requests of one piece that are started."""
PRODUCES_OF_A_PASS = 8
"""The same of a Produce: more than clients that keep to their order have under way. After one that closes its
connection (acks=0) the worker gets no more than these."""
WORK_OF_A_PASS_BYTES = 8 * 1024
"""Bytes of requests and replies after which no further request is started."""
TURNS_OF_A_PASS = 8
"""Connections that gave way and are continued in one pass: newcomers do not wait for all of them."""


def has_had_its_turn(begun: int, worked_bytes: int, *, is_produce: bool) -> bool:
    """Whether the `begun`-th request waits for the next pass; `worked_bytes` counts earlier requests and replies."""
    if is_produce:
        return begun > PRODUCES_OF_A_PASS
    return begun > REQUESTS_OF_A_PASS or (begun > 1 and worked_bytes > WORK_OF_A_PASS_BYTES)


class ReadyConnections:
    """Connections with a ready reply, or whose wait may be over. Each is here once, in the order of getting ready."""

    __slots__ = ("_connections",)

    def __init__(self) -> None:
        self._connections: dict[Connection, None] = {}

    def __bool__(self) -> bool:
        return bool(self._connections)

    def add(self, connection: Connection) -> None:
        self._connections[connection] = None

    def take(self) -> dict[Connection, None]:
        """Take all of them; connections that get ready from now on are taken the next time."""
        taken, self._connections = self._connections, {}
        return taken
