"""Closes connections at a stop such that the last replies arrive.

When a socket with unread input is closed, the kernel discards undelivered output. So first the writing direction is
shut down, then input is read and discarded until the client has received all replies. That takes a few milliseconds for
clients that read, and is bounded for others.
"""

import fcntl
import select
import socket
import termios
from collections.abc import Callable, Iterable
from struct import Struct

from kafkad.processes.network.connections.connection import Connection

FIRST_REQUEST_MS = 2_000
"""The timeout for the first request of a new connection at a stop: its client has sent it, or is about to. Later
clients wait in the kernel's queue for the next start.
"""
LINGER_MS = 400
_CHECK_INTERVAL_MS = 10
_DISCARD_BYTES = 1 << 16
_INT = Struct("i")


def is_awaited(connection: Connection, now_ms: int) -> bool:
    """Whether the first request of the connection may still arrive."""
    return connection.is_new and now_ms < connection.last_active_ms + FIRST_REQUEST_MS


def next_abandoned_ms(connections: Iterable[Connection], now_ms: int) -> int | None:
    """When the next wait for a first request times out."""
    active_ms = min((each.last_active_ms for each in connections if is_awaited(each, now_ms)), default=None)
    return None if active_ms is None else active_ms + FIRST_REQUEST_MS


def close_gracefully(sockets: Iterable[socket.socket], now_ms: Callable[[], int]) -> None:
    """Shut down writing on all sockets, and wait for those that would lose data if they were closed now."""
    poll = select.poll()
    lingering: dict[int, socket.socket] = {}
    for sock in sockets:
        # Checked first, as the shutdown itself counts as undelivered.
        would_lose = _pending(sock, termios.FIONREAD) or _pending(sock, termios.TIOCOUTQ)
        if shut_down_writing(sock) and would_lose:
            lingering[sock.fileno()] = sock
            poll.register(sock, select.POLLIN)
    until_ms = now_ms() + LINGER_MS
    while lingering and now_ms() < until_ms:
        readable = {fd for fd, _ in poll.poll(_CHECK_INTERVAL_MS)}
        for fd, sock in list(lingering.items()):
            is_done = not _discard_input(sock) if fd in readable else not _pending(sock, termios.TIOCOUTQ)
            if is_done:
                poll.unregister(fd)
                del lingering[fd]


def shut_down_writing(sock: socket.socket) -> bool:
    """Signal the end of the replies to the peer; False when the peer has disconnected."""
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        return False
    return True


def _discard_input(sock: socket.socket) -> bool:
    """False when the client has closed."""
    try:
        while sock.recv(_DISCARD_BYTES):
            continue
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _pending(sock: socket.socket, request: int) -> int:
    """Bytes received and not read, or sent and not acknowledged."""
    try:
        (count,) = _INT.unpack(fcntl.ioctl(sock, request, bytes(_INT.size)))
    except OSError:
        return 0
    return int(count)
