"""The limit of memory for replies that clients do not read.

Replies stay in memory until they are sent. Beyond the limit, requests of clients with unread replies and requests with
possibly large replies wait. Then connections that have read nothing since the last check are closed, those with the
most unread bytes first. Below the limit nothing is checked or counted.
"""

from collections.abc import Callable, Iterable

from kafkad.adapters.operating_system.process_limits import release_free_memory
from kafkad.core.waiting.slow_requests import CHECK_INTERVAL_MS, STUCK_BYTES, SlowRequests, Transfer, select_for_bytes
from kafkad.processes.network.connections.connection import Connection
from kafkad.wire.api_table import API_VERSIONS, DESCRIBE_PRODUCERS, FETCH, PRODUCE

UNREAD_BYTES = 32 << 20

_SMALL_REPLIES = frozenset({PRODUCE, FETCH, API_VERSIONS})
"""APIs with small replies: fetched records stay in files."""


class UnreadReplies:
    """One for each network process; `connections` are all its connections."""

    def __init__(self, limit: int = UNREAD_BYTES) -> None:
        self._limit = limit
        self._most = 0
        """An upper bound of unread bytes: the last count plus all replies since."""
        self._requests: SlowRequests[Connection] = SlowRequests()
        self.connections: Callable[[], Iterable[Connection]] = tuple
        self.is_describing: Callable[[], bool] = bool
        """Whether a DescribeProducers request is in progress: one at a time, as its reply may have megabytes."""
        self.next_described: dict[Connection, None] = {}
        """Connections that wait only for `is_describing`: no connection is closed for them."""
        self.waiting: dict[Connection, None] = {}
        self.next_check_ms: int | None = None

    @property
    def is_exceeded(self) -> bool:
        """Whether the unread bytes may exceed the limit."""
        return self._most > self._limit

    @property
    def is_requested(self) -> bool:
        return bool(self.waiting) or self.next_check_ms is not None

    def made(self, size: int) -> None:
        """Count a reply of `size` bytes."""
        self._most += size

    def must_wait(self, connection: Connection, api_key: int) -> bool:
        """Whether the next request has to wait; then its connection is in `waiting` or `next_described`."""
        if api_key == DESCRIBE_PRODUCERS and self.is_describing():
            self.next_described[connection] = None
            return True
        if not self.is_exceeded or (not connection.out_bytes and api_key in _SMALL_REPLIES):
            return False
        self.waiting[connection] = None
        return True

    def _holders(self) -> list[Transfer[Connection]]:
        """The unread bytes of each connection. Shared bytes count for one connection."""
        counted: set[int] = set()
        holders = []
        for connection in self.connections():
            if not connection.out_bytes:
                continue
            held = 0
            for piece in connection.unsent_pieces():
                if isinstance(piece, bytes) and id(piece) not in counted:
                    counted.add(id(piece))
                    held += len(piece)
            holders.append(Transfer(connection, 0, -connection.out_bytes, held, False))
        return holders

    def recount(self) -> bool:
        """Count the unread bytes, once in each pass while `is_exceeded`, as sent bytes are not tracked.

        Returns whether the limit is no longer exceeded.
        """
        self._most = sum(each.held_bytes for each in self._holders())
        return not self.is_exceeded

    def forget(self, connection: Connection) -> None:
        self.waiting.pop(connection, None)
        self.next_described.pop(connection, None)

    def tick(self, now_ms: int, close: Callable[[Connection, str | None], None]) -> None:
        """In each pass while `is_requested`."""
        if self.next_check_ms is not None and now_ms < self.next_check_ms:
            return
        if not self.waiting:
            self._requests.reset()
            self.next_check_ms = None
            release_free_memory()
            return
        self.next_check_ms = now_ms + CHECK_INTERVAL_MS
        checked = self._requests.check(self._holders(), STUCK_BYTES)
        slow = sorted(
            (each.transfer for each in checked if each.is_slow), key=lambda transfer: transfer.held_bytes, reverse=True
        )
        closed = select_for_bytes([transfer for transfer in slow if transfer.held_bytes], self._most - self._limit // 2)
        for transfer in closed:
            close(
                transfer.owner,
                f"it does not read its replies, {transfer.held_bytes} bytes, while others wait for memory",
            )
