"""New connections: accepting, the limits of connections, and the advertised address.

A new connection wakes every network process; the process with the fewest connections accepts it. The others check again
a moment later, so that a hung process delays a client only briefly. Nothing here wakes an idle broker.
"""

import logging
import select
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkad.adapters.links.host_addresses import without_mapping
from kafkad.adapters.shared_memory.connection_counts import ConnectionCounts
from kafkad.config.listeners import Listener
from kafkad.core.request_context import ConnectionContext
from kafkad.processes.runtime.peer_log import PeerLog

log = logging.getLogger(__name__)

SECOND_CHECK_MS = 2
NO_LIMIT = 2**31 - 1
"""The limits when no option sets them."""
FAILED_PAUSE_MS = 1_000
"""After a failed accept the listener is ignored for this long. Otherwise epoll would report it in every pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of connections; the configuration may change them at any time."""

    all_together: int
    per_ip: int
    per_ip_overrides: Mapping[str, int]
    per_second: int
    """New connections per second, of all network processes together."""


class Accepted:
    """An accepted socket; `context` has its listener and the advertised address.

    `exceeded_limit` is set for a broker's connection above the limit: then a client connection has to be closed.
    """

    __slots__ = ("context", "exceeded_limit", "host", "peer", "sock")

    def __init__(
        self, sock: socket.socket, host: str, peer: str, context: ConnectionContext, exceeded_limit: str | None
    ) -> None:
        self.sock = sock
        self.host = host
        self.peer = peer
        self.context = context
        self.exceeded_limit = exceeded_limit


class Acceptor:
    """The listening sockets of one network process."""

    def __init__(
        self,
        listeners: list[tuple[Listener, socket.socket]],
        epoll: select.epoll,
        *,
        buffers: tuple[int, int],
        most_here: int,
        counts: ConnectionCounts,
        limits: ConnectionLimits,
        peer_log: PeerLog,
        protected: Collection[str] = (),
    ) -> None:
        """The listeners in `protected` have no limit of the total, only the limit of one address."""
        self.protected = protected
        self._listeners = {sock.fileno(): (listener, sock) for listener, sock in listeners}
        self._epoll = epoll
        self._send_buffer, self._receive_buffer = buffers
        self._most_here = most_here
        self._counts = counts
        self.limits = limits
        self._peer_log = peer_log
        self._open: set[int] = set()
        """The listeners registered with epoll."""
        self._postponed: set[int] = set()
        self.next_check_ms: int | None = None

    def open(self) -> None:
        for fd, (_, sock) in self._listeners.items():
            sock.setblocking(False)
            self._listen(fd)

    def _listen(self, fd: int) -> None:
        self._epoll.register(fd, select.EPOLLIN)
        self._open.add(fd)

    def close(self) -> None:
        for fd, (_, sock) in self._listeners.items():
            if fd in self._open:
                self._epoll.unregister(fd)
            sock.close()
        self._listeners.clear()
        self._open.clear()
        self._postponed.clear()
        self.next_check_ms = None

    @property
    def listening(self) -> list[int]:
        """The listeners that are not paused."""
        return list(self._open)

    def is_listener(self, fd: int) -> bool:
        return fd in self._listeners

    def postpone(self, fd: int, now_ms: int) -> None:
        """Leave the connection for a moment, so that a process with fewer connections can accept it."""
        self.pause(fd, now_ms + SECOND_CHECK_MS)

    def pause(self, fd: int, until_ms: int) -> None:
        """Accept nothing: new connections wait in the kernel's queue."""
        self._epoll.unregister(fd)
        self._open.discard(fd)
        self._postponed.add(fd)
        self.next_check_ms = min(until_ms, self.next_check_ms or until_ms)

    def second_check(self) -> list[int]:
        """Listen again on postponed listeners, and return them."""
        waiting = list(self._postponed)
        for fd in waiting:
            self._listen(fd)
        self._postponed.clear()
        self.next_check_ms = None
        return waiting

    def accept(self, fd: int, now_ms: int) -> Accepted | None:
        """Accept the next connection of `fd`; None when there is none, or it was rejected."""
        listener, listening = self._listeners[fd]
        try:
            sock, address = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError as error:
            log.error("can't accept a connection on %s: %s", listener.endpoint, error)
            self.pause(fd, now_ms + FAILED_PAUSE_MS)
            return None
        host, port = without_mapping(address[0]), address[1]
        peer = f"{host}:{port}"
        self._counts.enter(host)
        excess = self._excess()
        reason = self._address_excess(host) or (None if self.is_protected(fd) else excess)
        if reason is not None:
            self._counts.leave(host)
            self._peer_log.log(host, now_ms, "connection from %s rejected: %s", peer, reason)
            sock.close()
            return None
        self._configure(sock)
        advertised = self._advertised(listener, sock)
        context = ConnectionContext(listener.name, listener.protocol, advertised)
        return Accepted(sock, host, peer, context, exceeded_limit=excess)

    def is_protected(self, fd: int) -> bool:
        """Whether the listener is for brokers only."""
        return self._listeners[fd][0].name in self.protected

    def _address_excess(self, host: str) -> str | None:
        """The reason to reject a connection, which is already counted; None below the limit."""
        most = self.limits.per_ip_overrides.get(host, self.limits.per_ip)
        if most < NO_LIMIT and self._counts.from_host(host) > most:
            return f"the limit of {most} connections from one address is reached"
        return None

    def _excess(self) -> str | None:
        """The total limit that the newest connection exceeds."""
        limits, counts = self.limits, self._counts
        if limits.all_together < NO_LIMIT and counts.total() > limits.all_together:
            return f"the limit of {limits.all_together} connections is reached"
        if counts.here > self._most_here:
            return f"the limit of {self._most_here} connections of this process is reached (open files)"
        return None

    def _configure(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._send_buffer > 0:
            # At Kafka's default of 100 KB sendfile over loopback is faster than at the kernel's own size.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
        if self._receive_buffer > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)

    def _advertised(self, listener: Listener, sock: socket.socket) -> tuple[str, int]:
        name = sock.getsockname()
        if listener.advertised is not None:
            return listener.advertised.host, listener.advertised.port or name[1]
        return without_mapping(name[0]), name[1]

    def closed(self, host: str) -> None:
        self._counts.leave(host)
