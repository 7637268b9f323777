"""kazoo's waits: for its sockets, for a connection, and between two attempts to connect.

kazoo itself creates a selector for each wait, five per request; its pause between attempts grows without limit; and a
stop waits for the full timeout of a silent server.
"""

import errno
import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.retry import KazooRetry

from kafkad.adapters.stores.zookeeper_tls import TlsConnections

SILENT_S = 4.0
"""The longest wait for a silent server while the session is closed, which requires a write of the server."""
LONGEST_PAUSE_S = 1.0
_CHECK_INTERVAL_S = 0.5
"""The interval in which a wait checks for a stop, while requests are pending or the client is not connected."""
_IDLE_CHECK_S = 3_600.0
_SHORT_S = 0.2


class Waits:
    """The waits of one KazooClient. They end soon after `is_stopping` becomes true, unless the server still responds.

    An attempt to connect takes at most `attempt_s`. While the client `is_connected` without pending requests, waits do
    not check for a stop, so that an idle broker uses no CPU: kazoo ends these waits itself for a request and to close.
    """

    def __init__(
        self,
        is_stopping: Callable[[], bool],
        is_connected: Callable[[], bool],
        attempt_s: float,
        tls: TlsConnections | None,
    ) -> None:
        self._is_stopping = is_stopping
        self._is_connected = is_connected
        self._pending_requests: deque[None] = deque()
        self._attempt_s = attempt_s
        self._tls = tls
        self._last_activity_s = time.monotonic()

    def of_client(self) -> dict[str, Any]:
        """The arguments of the KazooClient."""
        handler = SequentialThreadingHandler()
        handler.select, handler.create_connection, handler.sleep_func = self.select, self.connected, self.sleep
        # Unlimited attempts, with the maximum pause of Apache ZooKeeper's client.
        retry = KazooRetry(max_tries=-1, max_delay=LONGEST_PAUSE_S, sleep_func=handler.sleep_func)
        return {"handler": handler, "connection_retry": retry}

    @contextmanager
    def pending_request(self) -> Iterator[None]:
        """A context with a pending request, entered before the request is sent."""
        self._pending_requests.append(None)
        try:
            yield
        finally:
            self._pending_requests.pop()

    def sleep(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self._is_stopping() and (remaining_s := until_s - time.monotonic()) > 0:
            time.sleep(min(remaining_s, _SHORT_S))
        if self._is_stopping():
            # kazoo may try again before it notices the stop.
            time.sleep(_SHORT_S)

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _others: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As select.select. Raises KazooTimeoutError if the client is stopping and the server is silent."""
        events_by_fd = {each.fileno(): select.POLLIN for each in readers}
        for each in writers:
            events_by_fd[each.fileno()] = events_by_fd.get(each.fileno(), 0) | select.POLLOUT
        decrypted = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        if decrypted:
            # The rest of a TLS record with several responses: the socket is not readable for it.
            return decrypted, [], []
        poll = select.poll()
        for descriptor, events in events_by_fd.items():
            poll.register(descriptor, events)
        until_s = float("inf") if timeout is None else time.monotonic() + timeout
        # The wait that a request ends has two readers: the socket and kazoo's pipe.
        is_idle = len(readers) > 1 and not self._pending_requests and self._is_connected()
        check_interval_s = _IDLE_CHECK_S if is_idle else _CHECK_INTERVAL_S
        while True:
            remaining_s = max(0.0, until_s - time.monotonic())
            was_stopping = self._is_stopping()
            ready = dict(poll.poll(min(remaining_s, check_interval_s) * 1000))
            if ready or not was_stopping:
                self._last_activity_s = time.monotonic()
            elif time.monotonic() - self._last_activity_s >= SILENT_S:
                raise KazooTimeoutError("the server is silent while the session is closed")
            if ready or remaining_s <= check_interval_s:
                # A socket with an error or at its end is readable and writable.
                readable = [each for each in readers if ready.get(each.fileno(), 0) & ~select.POLLOUT]
                return readable, [each for each in writers if ready.get(each.fileno(), 0) & ~select.POLLIN], []

    def connected(
        self, address: tuple[str, int], timeout: float | None = None, hostname: str | None = None, **_kazoos: Any
    ) -> socket.socket:
        """A connected socket; the address is numeric. Raises OSError, and KazooTimeoutError."""
        until_s = time.monotonic() + min(self._attempt_s, timeout or self._attempt_s)
        connection = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            error_number = connection.connect_ex(address)
            if error_number == errno.EINPROGRESS:
                self._wait_until(until_s, [], [connection])
                error_number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error_number:
                raise OSError(error_number, os.strerror(error_number))
            if self._tls is None:
                return connection
            return self._tls.secured(
                connection, hostname or address[0], lambda *events_by_fd: self._wait_until(until_s, *events_by_fd)
            )
        except (OSError, KazooTimeoutError):
            connection.close()
            raise

    def _wait_until(self, until_s: float, readers: Sequence[Any], writers: Sequence[Any]) -> None:
        if not any(self.select(readers, writers, [], max(0.0, until_s - time.monotonic()))):
            raise KazooTimeoutError("the server did not accept the connection in time")
