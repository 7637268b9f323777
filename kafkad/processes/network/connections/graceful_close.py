"""How does a connection end so that the last replies arrive? At a stop, when nothing more is read or answered.

The kernel throws away what it has not delivered yet when a socket is closed with input that nobody read. So first
the end of our replies is marked, then what the client has sent meanwhile is read and forgotten until the client
has got everything. That is a few milliseconds for clients that read, and bounded for those that don't.
"""

import fcntl
import select
import socket
import termios
from collections.abc import Callable, Iterable
from struct import Struct

from kafkad.processes.network.connections.connection import Connection

FIRST_REQUEST_MS = 2_000
"""How long a new connection is given for its first request: its client has sent it, or is about to. Clients that come a
moment later wait in the kernel's queue for the next start, and this one was accepted too early for that.
"""
LINGER_MS = 400
_CHECK_INTERVAL_MS = 10
_FORGOTTEN_BYTES = 1 << 16
_INT = Struct("i")


def is_awaited(connection: Connection, now_ms: int) -> bool:
    """Whether the first request of the connection may still come."""
    return connection.is_new and now_ms < connection.last_active_ms + FIRST_REQUEST_MS


def next_abandoned_ms(connections: Iterable[Connection], now_ms: int) -> int | None:
    """When the first of those whose requests are awaited is given up."""
    active_ms = min((each.last_active_ms for each in connections if is_awaited(each, now_ms)), default=None)
    return None if active_ms is None else active_ms + FIRST_REQUEST_MS


def part(sockets: Iterable[socket.socket], now_ms: Callable[[], int]) -> None:
    """Mark the end on all of them, and wait for those that would lose something if they were closed now."""
    poll = select.poll()
    lingering: dict[int, socket.socket] = {}
    for sock in sockets:
        # Before: the mark itself is something that has not arrived yet.
        would_lose = _pending(sock, termios.FIONREAD) or _pending(sock, termios.TIOCOUTQ)
        if mark_end(sock) and would_lose:
            lingering[sock.fileno()] = sock
            poll.register(sock, select.POLLIN)
    until_ms = now_ms() + LINGER_MS
    while lingering and now_ms() < until_ms:
        readable = {fd for fd, _ in poll.poll(_CHECK_INTERVAL_MS)}
        for fd, sock in list(lingering.items()):
            is_over = not _forget_input(sock) if fd in readable else not _pending(sock, termios.TIOCOUTQ)
            if is_over:
                poll.unregister(fd)
                del lingering[fd]


def mark_end(sock: socket.socket) -> bool:
    """Mark the end of the replies for the peer; False when it is gone."""
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        return False
    return True


def _forget_input(sock: socket.socket) -> bool:
    """False when the client has closed."""
    try:
        while sock.recv(_FORGOTTEN_BYTES):
            continue
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _pending(sock: socket.socket, question: int) -> int:
    """Bytes that are received and not read, or sent and not acknowledged."""
    try:
        (count,) = _INT.unpack(fcntl.ioctl(sock, question, bytes(_INT.size)))
    except OSError:
        return 0
    return int(count)
