"""The work of each pass for the connections of a network process, besides their requests.

Connections that wait for memory or for their turn continue; stalled and idle connections are closed.
"""

from collections.abc import Iterator

from kafkad.processes.network.connections.clients import Clients
from kafkad.processes.network.connections.slow_request_eviction import SlowRequestEviction

STALL_MS = 30_000
"""The timeout of an incomplete request without received bytes; then its connection is closed and its space released."""
STALL_CHECK_MS = 1_000
STARVED_CHECK_MS = 20
"""Space may also be freed without an event, by a closed connection."""
IDLE_CHECKS = 10
"""The number of idle checks within `connections.max.idle.ms`."""


class ConnectionMaintenance:
    """Maintains all connections of `clients`."""

    def __init__(self, clients: Clients, max_idle_ms: int, now_ms: int) -> None:
        self._clients = clients
        self._reader = clients.reader
        self._unread = clients.unread
        self.slow_requests = SlowRequestEviction(clients.reader, clients.close)
        self._next_stall_check_ms = 0
        self.set_max_idle(max_idle_ms, now_ms)

    def set_max_idle(self, max_idle_ms: int, now_ms: int) -> None:
        """Set the idle timeout of connections; a negative value disables it (as in Apache Kafka)."""
        self._max_idle_ms = max_idle_ms
        self._next_idle_check_ms: int | None = None
        if max_idle_ms >= 0:
            self._next_idle_check_ms = now_ms + max(1, max_idle_ms // IDLE_CHECKS)

    @property
    def is_calm(self) -> bool:
        """Whether no connection waits for memory, its turn, the end of a pause, or the rest of its request."""
        reader, unread, slow_requests = self._reader, self._unread, self.slow_requests
        return not (
            reader.unfinished
            or reader.next_pass
            or reader.starved
            or unread.is_exceeded
            or unread.is_requested
            or unread.next_described
            or slow_requests.is_requested
            or self._clients.next_unmute_ms is not None
        )

    def tick(self, now_ms: int) -> None:
        """In each pass, unless all is calm and nothing is due."""
        if not self.is_calm:
            self._resume_waiting(now_ms)
        if self._next_idle_check_ms is not None and now_ms >= self._next_idle_check_ms:
            self._next_idle_check_ms = now_ms + max(1, self._max_idle_ms // IDLE_CHECKS)
            self.close_idle(self._max_idle_ms)

    def _resume_waiting(self, now_ms: int) -> None:
        clients, reader, unread = self._clients, self._reader, self._unread
        if clients.next_unmute_ms is not None:
            clients.unmute()
        if self.slow_requests.is_requested:
            self.slow_requests.tick(now_ms)
        if unread.is_requested:
            unread.tick(now_ms, clients.close)
        if reader.next_pass:
            clients.continue_some(reader.next_pass)
        has_space = not unread.is_exceeded or unread.recount()
        if has_space and unread.waiting:
            clients.continue_some(unread.waiting)
        if unread.next_described and not unread.is_describing():
            clients.continue_some(unread.next_described)
        if reader.starved:
            clients.resume_starved()
        if reader.space.crowded:
            clients.resume_crowded()
        if reader.unfinished and now_ms >= self._next_stall_check_ms:
            self._next_stall_check_ms = now_ms + STALL_CHECK_MS
            self.close_stalled(STALL_MS)

    def close_stalled(self, stall_ms: int) -> None:
        """Close connections with stalled incomplete requests: other requests require their memory."""
        now_ms = self._clients.now_ms
        for connection in list(self._reader.unfinished):
            # A connection that the broker does not read can't make progress.
            if connection.is_read and now_ms - connection.last_active_ms >= stall_ms:
                filling = connection.filling
                received_bytes = (
                    f"{filling.got} of {filling.total}" if filling is not None else f"{len(connection.head)}"
                )
                self._clients.close(
                    connection, f"{received_bytes} bytes of a request received, then the client stalled"
                )

    def close_idle(self, max_idle_ms: int) -> None:
        """Close connections without traffic for `max_idle_ms`, as in Apache Kafka even with requests in flight.

        Only this detects a peer that vanished without closing, or that does not read its replies.
        """
        now_ms = self._clients.now_ms
        for connection in list(self._clients):
            if now_ms - connection.last_active_ms > max_idle_ms:
                unread = f"{connection.out_bytes} bytes of replies are not read" if connection.out else None
                self._clients.close(connection, unread)

    @property
    def is_busy(self) -> bool:
        """Whether the next pass has work."""
        return bool(self._reader.next_pass)

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `tick` has work."""
        idle_ms = self._next_idle_check_ms if len(self._clients) else None
        if self.is_calm:
            return idle_ms
        return min([*self._deadlines_ms(now_ms), *(() if idle_ms is None else (idle_ms,))], default=None)

    def _deadlines_ms(self, now_ms: int) -> Iterator[int]:
        clients, reader = self._clients, self._reader
        if clients.next_unmute_ms is not None:
            yield clients.next_unmute_ms
        if reader.unfinished:
            yield self._next_stall_check_ms
        if self._unread.is_requested:
            yield self._unread.next_check_ms or now_ms
        if self._unread.next_described and not self._unread.is_describing():
            # More connections than one pass continues, and none of those described producers.
            yield now_ms
        if self.slow_requests.is_requested:
            yield self.slow_requests.next_check_ms or now_ms
        if reader.starved or reader.space.crowded:
            yield now_ms + STARVED_CHECK_MS
