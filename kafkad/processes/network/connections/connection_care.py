"""What a network process does for its connections beside their requests, in each pass, and when next.

Memory for those who wait for some, turns for those who let others go first, an end for those who stall or are idle.
"""

from collections.abc import Iterator

from kafkad.processes.network.connections.clients import Clients
from kafkad.processes.network.connections.slow_request_eviction import SlowRequestEviction

STALL_MS = 30_000
"""A request that was begun and does not go on for this long is given up, with the arena space that it holds."""
STALL_CHECK_MS = 1_000
STARVED_CHECK_MS = 20
"""Space also comes free where nobody wakes up for it, by a connection that is closed."""
IDLE_CHECKS = 10
"""Idle connections are looked for this often within `connections.max.idle.ms`."""


class ConnectionCare:
    """Of all connections in `clients`."""

    def __init__(self, clients: Clients, max_idle_ms: int, now_ms: int) -> None:
        self._clients = clients
        self._reader = clients.reader
        self._unread = clients.unread
        self.slow_requests = SlowRequestEviction(clients.reader, clients.close)
        self._next_stall_check_ms = 0
        self.look_for_idle(max_idle_ms, now_ms)

    def look_for_idle(self, max_idle_ms: int, now_ms: int) -> None:
        """From now on, those on which no byte moves for so long are closed; a negative limit is none (as in Kafka)."""
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
            or unread.is_over
            or unread.is_requested
            or unread.next_described
            or slow_requests.is_requested
            or self._clients.next_unmute_ms is not None
        )

    def tick(self, now_ms: int) -> None:
        """In each pass, unless all is calm and nothing is due."""
        if not self.is_calm:
            self._look_after_waiting(now_ms)
        if self._next_idle_check_ms is not None and now_ms >= self._next_idle_check_ms:
            self._next_idle_check_ms = now_ms + max(1, self._max_idle_ms // IDLE_CHECKS)
            self.close_idle(self._max_idle_ms)

    def _look_after_waiting(self, now_ms: int) -> None:
        clients, reader, unread = self._clients, self._reader, self._unread
        if clients.next_unmute_ms is not None:
            clients.unmute()
        if self.slow_requests.is_requested:
            self.slow_requests.tick(now_ms)
        if unread.is_requested:
            unread.tick(now_ms, clients.close)
        if reader.next_pass:
            clients.take_turns(reader.next_pass)
        has_space = not unread.is_over or unread.begin_pass()
        if has_space and unread.waiting:
            clients.take_turns(unread.waiting)
        if unread.next_described and not unread.is_describing():
            clients.take_turns(unread.next_described)
        if reader.starved:
            clients.feed_starved()
        if reader.space.crowded:
            clients.feed_crowded()
        if reader.unfinished and now_ms >= self._next_stall_check_ms:
            self._next_stall_check_ms = now_ms + STALL_CHECK_MS
            self.close_stalled(STALL_MS)

    def close_stalled(self, stall_ms: int) -> None:
        """Close connections that began a request and stopped sending: other requests need their memory."""
        now_ms = self._clients.now_ms
        for connection in list(self._reader.unfinished):
            # A connection that the broker does not read can't go on sending.
            if connection.is_read and now_ms - connection.last_active_ms >= stall_ms:
                filling = connection.filling
                came = f"{filling.got} of {filling.total}" if filling is not None else f"{len(connection.head)}"
                self._clients.close(connection, f"{came} bytes of a request came, then nothing")

    def close_idle(self, max_idle_ms: int) -> None:
        """Close connections on which no byte moved for `max_idle_ms`; as in Apache Kafka, even with requests under way.

        Nothing else detects a peer that is gone without closing, or that does not read its replies.
        """
        now_ms = self._clients.now_ms
        for connection in list(self._clients):
            if now_ms - connection.last_active_ms > max_idle_ms:
                unread = f"{connection.out_bytes} bytes of replies are not read" if connection.out else None
                self._clients.close(connection, unread)

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do in the next pass already."""
        return bool(self._reader.next_pass)

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `tick` has work to do."""
        idle_ms = self._next_idle_check_ms if len(self._clients) else None
        if self.is_calm:
            return idle_ms
        return min([*self._waits_ms(now_ms), *(() if idle_ms is None else (idle_ms,))], default=None)

    def _waits_ms(self, now_ms: int) -> Iterator[int]:
        clients, reader = self._clients, self._reader
        if clients.next_unmute_ms is not None:
            yield clients.next_unmute_ms
        if reader.unfinished:
            yield self._next_stall_check_ms
        if self._unread.is_requested:
            yield self._unread.next_check_ms or now_ms
        if self._unread.next_described and not self._unread.is_describing():
            # More than have their turn in one pass, of which none was about producers after all.
            yield now_ms
        if self.slow_requests.is_requested:
            yield self.slow_requests.next_check_ms or now_ms
        if reader.starved or reader.space.crowded:
            yield now_ms + STARVED_CHECK_MS
