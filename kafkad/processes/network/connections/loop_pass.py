"""A pass of the loop: how much of one connection it takes, and which connections it looks at when it ends."""

from kafkad.processes.network.connections.connection import Connection

PASS_BYTES = 1 << 20
"""Received."""
REQUESTS_OF_A_PASS = 32
"""Started, of those that came in one piece; a Produce costs less and does not count."""
WORK_OF_A_PASS_BYTES = 8 * 1024
"""Fewer are started, if they or their replies are large."""
TURNS_OF_A_PASS = 8
"""So many connections that have let others go first go on in one pass: newcomers do not wait for all of them."""


def has_had_its_turn(begun: int, worked_bytes: int) -> bool:
    """Whether the `begun`-th request waits for the next pass; `worked_bytes` are of those before it and replies."""
    return begun > REQUESTS_OF_A_PASS or worked_bytes > WORK_OF_A_PASS_BYTES


class ReadyConnections:
    """A reply is ready, or what they waited for may be there. Each once, in the order in which they got ready."""

    __slots__ = ("_connections",)

    def __init__(self) -> None:
        self._connections: dict[Connection, None] = {}

    def __bool__(self) -> bool:
        return bool(self._connections)

    def add(self, connection: Connection) -> None:
        self._connections[connection] = None

    def take(self) -> dict[Connection, None]:
        """All of them; who gets ready from now on is in the next."""
        taken, self._connections = self._connections, {}
        return taken
