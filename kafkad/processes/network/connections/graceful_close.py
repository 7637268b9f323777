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

LINGER_MS = 400
_LOOK_MS = 10
_FORGOTTEN_BYTES = 1 << 16
_INT = Struct("i")


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
        readable = {fd for fd, _ in poll.poll(_LOOK_MS)}
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
