"""Connections that are to be looked at when the pass ends: a reply is ready, or what they waited for may be there."""

from kafkad.processes.network.connections.connection import Connection


class ReadyConnections:
    """In the order in which they got ready, each once."""

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
