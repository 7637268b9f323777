"""How kazoo waits: for its sockets, to connect, and between two attempts to connect.

kazoo itself makes a selector of the system for each wait, of which a request has five; it lets the pause between
attempts grow without end; and whoever stops it waits until a silent server has been given up as at any other time.
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
"""A server that says nothing for so long while the session is closed is not waited for any more. Its end is a write."""
LONGEST_PAUSE_S = 1.0
_CHECK_INTERVAL_S = 0.5
"""How often a wait looks whether the session is to be closed, while somebody waits for an answer or a connection."""
_IDLE_CHECK_S = 3_600.0
_SHORT_S = 0.2


class Waits:
    """Of one KazooClient. Every wait ends soon when `is_stopping` becomes true, unless the server goes on answering.

    An attempt to connect takes no longer than `attempt_s`. While it `is_connected` and nobody is `asking`, nobody looks
    whether it is to stop, as an idle broker uses no CPU: kazoo ends that wait itself for a request, and to close.
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
        self._asking: deque[None] = deque()
        self._attempt_s = attempt_s
        self._tls = tls
        self._heard_s = time.monotonic()

    def of_client(self) -> dict[str, Any]:
        """Arguments of the KazooClient."""
        handler = SequentialThreadingHandler()
        handler.select, handler.create_connection, handler.sleep_func = self.select, self.connected, self.sleep
        # For as long as the session is wanted, with pauses as of Apache ZooKeeper's client in the end.
        retry = KazooRetry(max_tries=-1, max_delay=LONGEST_PAUSE_S, sleep_func=handler.sleep_func)
        return {"handler": handler, "connection_retry": retry}

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While somebody waits for an answer; begun before the request is sent."""
        self._asking.append(None)
        try:
            yield
        finally:
            self._asking.pop()

    def sleep(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self._is_stopping() and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _SHORT_S))
        if self._is_stopping():
            # There may be another attempt before kazoo hears of it.
            time.sleep(_SHORT_S)

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _others: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As select.select. Raises KazooTimeoutError when the session is to be closed and the server is silent."""
        wanted = {each.fileno(): select.POLLIN for each in readers}
        for each in writers:
            wanted[each.fileno()] = wanted.get(each.fileno(), 0) | select.POLLOUT
        decrypted = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        if decrypted:
            # The rest of a record that came with several answers: the system has nothing more to tell of it.
            return decrypted, [], []
        poll = select.poll()
        for descriptor, events in wanted.items():
            poll.register(descriptor, events)
        until_s = float("inf") if timeout is None else time.monotonic() + timeout
        # The wait that a request ends is for the socket and for kazoo's own pipe.
        is_idle = len(readers) > 1 and not self._asking and self._is_connected()
        check_interval_s = _IDLE_CHECK_S if is_idle else _CHECK_INTERVAL_S
        while True:
            left_s = max(0.0, until_s - time.monotonic())
            was_stopping = self._is_stopping()
            ready = dict(poll.poll(min(left_s, check_interval_s) * 1000))
            if ready or not was_stopping:
                self._heard_s = time.monotonic()
            elif time.monotonic() - self._heard_s >= SILENT_S:
                raise KazooTimeoutError("the server is silent, and nobody waits for it any more")
            if ready or left_s <= check_interval_s:
                # An error, or an end, is both.
                readable = [each for each in readers if ready.get(each.fileno(), 0) & ~select.POLLOUT]
                return readable, [each for each in writers if ready.get(each.fileno(), 0) & ~select.POLLIN], []

    def connected(
        self, address: tuple[str, int], timeout: float | None = None, hostname: str | None = None, **_kazoos: Any
    ) -> socket.socket:
        """The address is a number. Raises OSError, and KazooTimeoutError."""
        until_s = time.monotonic() + min(self._attempt_s, timeout or self._attempt_s)
        made = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            problem = made.connect_ex(address)
            if problem == errno.EINPROGRESS:
                self._wait_until(until_s, [], [made])
                problem = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if problem:
                raise OSError(problem, os.strerror(problem))
            if self._tls is None:
                return made
            return self._tls.secured(made, hostname or address[0], lambda *wanted: self._wait_until(until_s, *wanted))
        except (OSError, KazooTimeoutError):
            made.close()
            raise

    def _wait_until(self, until_s: float, readers: Sequence[Any], writers: Sequence[Any]) -> None:
        if not any(self.select(readers, writers, [], max(0.0, until_s - time.monotonic()))):
            raise KazooTimeoutError("it does not accept the connection in time")
