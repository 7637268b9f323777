"""Standard streams that may be closed, broken, full or not read.

A shell may close them (`>&-`): the next file or socket would get that number, and prints would go into it. Their
reader may end, and the disk behind them may be full: that ends a command, but never a broker. Their reader may stop
reading: then a command waits, but a broker never does.
"""

import errno
import io
import os
import select
import socket
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MOST_WAITING_BYTES = 1 << 20
"""What one process keeps of a stream that nobody reads."""
RETRY_S = 0.1
"""How often a process tries to write lines that wait."""
LAST_LINES_S = 1.0
"""How long a process that ends waits for the reader of its last lines."""

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def hold_standard_streams() -> None:
    """Puts /dev/null in the place of each one that is closed."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode))


class UnblockedOutput(io.RawIOBase):
    """A standard stream of a broker: no write waits for the reader, and none fails.

    Lines that a full pipe does not take wait in this process, in their order. When `MOST_WAITING_BYTES` wait, further
    lines are dropped until the others are written; one line with their number then stands in their place. Lines that
    a full disk does not take are dropped and counted as well.
    """

    def __init__(self, fd: int) -> None:
        kind = os.fstat(fd).st_mode
        self._socket = socket.socket(fileno=os.dup(fd)) if stat.S_ISSOCK(kind) else None
        own = _own_description(fd) if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind) else None
        self._fd = fd if own is None else own
        self._room = select.poll()
        self._room.register(self._fd, select.POLLOUT)
        self._asks_first = own is None and (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind))
        """Whether a write could block. Asking first is only nearly as good: another process may take the room."""
        self._lock = Lock()
        self._waiting = bytearray()
        self._dropped = 0
        self._is_at_line_start = True
        """A full disk takes the beginning of a line."""
        self.is_blocked = False
        """Whether lines wait for the reader."""
        self.describe_dropped: Callable[[int], str] = _describe_dropped

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        text = bytes(data)
        with self._lock:
            self._write_waiting()
            if self._dropped or len(self._waiting) + len(text) > MOST_WAITING_BYTES:
                self._dropped += text.count(b"\n")
            else:
                self._waiting += text
                self._write_waiting()
        return len(text)

    def write_waiting(self) -> None:
        with self._lock:
            self._write_waiting()

    def write_last(self, within_s: float) -> None:
        """Write the lines that wait; at most `within_s`."""
        end_s = monotonic() + within_s
        self.write_waiting()
        while self.is_blocked and self._room.poll(max(0.0, end_s - monotonic()) * 1000):
            self.write_waiting()

    def forget_waiting(self) -> None:
        self._lock = Lock()
        self._waiting.clear()
        self._dropped = 0
        self.is_blocked = False

    def _write_waiting(self) -> None:
        try:
            while self._waiting or self._dropped:
                if self._waiting:
                    # Whole lines, so that those of other processes come between them when the reader goes on.
                    piece = _first_lines(self._waiting) if self.is_blocked else self._waiting
                    del self._waiting[: self._write_some(bytes(piece))]
                else:
                    broken = "" if self._is_at_line_start else "\n"
                    line = f"{broken}{self.describe_dropped(self._dropped)}\n".encode()
                    self._waiting += line[self._write_some(line) :]
                    self._dropped = 0
            self.is_blocked = False
        except BlockingIOError:
            self.is_blocked = True
        except OSError:
            self._dropped += self._waiting.count(b"\n")
            self._waiting.clear()
            self.is_blocked = False

    def _write_some(self, piece: bytes) -> int:
        written = self._write_without_waiting(piece)
        self._is_at_line_start = piece[:written].endswith(b"\n")
        return written

    def _write_without_waiting(self, piece: bytes) -> int:
        if self._socket is not None:
            return self._socket.send(piece, socket.MSG_DONTWAIT)
        if self._asks_first:
            if not self._room.poll(0):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            piece = piece[: select.PIPE_BUF]
        return os.write(self._fd, piece)


def _own_description(fd: int) -> int | None:
    """The same pipe or terminal, opened once more: O_NONBLOCK on the description that the shell and others share would
    hold for them, too. None if it may not be opened, as after `su`.
    """
    with suppress(OSError):
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    return None


def _first_lines(text: bytearray) -> bytearray:
    """As many lines as a pipe takes whole or not at all (pipe(7)); of a longer line its beginning."""
    return text[: text.rfind(b"\n", 0, select.PIPE_BUF) + 1 or select.PIPE_BUF]


def _describe_dropped(count: int) -> str:
    return f"kafkad: {count} lines were dropped, as they could not be written"


_unblocked: list[UnblockedOutput] = []


def unblock_standard_streams() -> None:
    """For a broker; see `UnblockedOutput`."""
    _unblocked.clear()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        output = UnblockedOutput(stream.fileno())
        _unblocked.append(output)
        setattr(sys, name, io.TextIOWrapper(output, stream.encoding, errors="backslashreplace", write_through=True))


def forget_waiting() -> None:
    """In a child process: what waits is the parent's."""
    for output in _unblocked:
        output.forget_waiting()


def describe_dropped_by(describe: Callable[[int], str]) -> None:
    """Let the line about dropped lines look like those of the log."""
    for output in _unblocked:
        output.describe_dropped = describe


def write_waiting() -> bool:
    """Try again to write lines that wait; whether some still do. Call it after at most `RETRY_S` then."""
    waits = False
    for output in _unblocked:
        if output.is_blocked:
            output.write_waiting()
            waits |= output.is_blocked
    return waits


def write_last(within_s: float = LAST_LINES_S) -> None:
    """Before the process ends."""
    for output in _unblocked:
        output.write_last(within_s)


def print_line(text: str, stream: TextIO) -> None:
    """Print lines; a failing stream does not end the broker."""
    with suppress(OSError):
        # In one write, so that the lines of several processes do not mix.
        stream.write(f"{text}\n")
        stream.flush()


def drop_unwritten() -> None:
    """Drops output that could not be written: a retry at the interpreter's end would make the exit code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def is_no_space(error: OSError) -> bool:
    """Did a write to a standard stream fail for its disk? An error of a named file is not about them."""
    return error.errno in _NO_SPACE and error.filename is None
