"""Standard streams that may be closed, broken, full or not read.

A shell may close them (`>&-`): then the next opened file or socket would get their number and the printed lines. If the
reader ends or the disk is full, a command ends, but a broker continues. If the reader does not read, a command waits,
but a broker continues.
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

MAX_PENDING_BYTES = 1 << 20
"""The most bytes that a process keeps for a stream whose reader does not read."""
RETRY_S = 0.1
"""The interval in which a process retries to write pending lines."""
LAST_LINES_S = 1.0
"""The longest time that an exiting process waits for the reader."""

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def hold_standard_streams() -> None:
    """Replace closed standard streams by /dev/null."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode))


class UnblockedOutput(io.RawIOBase):
    """A standard stream of a broker: writes never wait for the reader, and never fail.

    Lines that do not fit into a full pipe are pending in this process, in order. Beyond `MAX_PENDING_BYTES` further
    lines are dropped until the pending lines are written; then one line has the number of dropped lines. Lines that do
    not fit on a full disk are dropped and counted too.
    """

    def __init__(self, fd: int) -> None:
        kind = os.fstat(fd).st_mode
        self._socket = socket.socket(fileno=os.dup(fd)) if stat.S_ISSOCK(kind) else None
        reopened = _reopened(fd) if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind) else None
        self._fd = fd if reopened is None else reopened
        self._writable = select.poll()
        self._writable.register(self._fd, select.POLLOUT)
        self._polls_first = reopened is None and (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind))
        """Whether a write could block, and needs a poll before. (Another process may fill the pipe meanwhile.)"""
        self._lock = Lock()
        self._pending = bytearray()
        self._dropped = 0
        self._is_at_line_start = True
        """False after a full disk took only the beginning of a line."""
        self.is_blocked = False
        """Whether pending lines wait for the reader."""
        self.describe_dropped: Callable[[int], str] = _describe_dropped

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        text = bytes(data)
        with self._lock:
            self._write_pending()
            if self._dropped or len(self._pending) + len(text) > MAX_PENDING_BYTES:
                self._dropped += text.count(b"\n")
            else:
                self._pending += text
                self._write_pending()
        return len(text)

    def write_pending(self) -> None:
        with self._lock:
            self._write_pending()

    def write_last(self, timeout_s: float) -> None:
        """Write the pending lines, within at most `timeout_s`."""
        end_s = monotonic() + timeout_s
        self.write_pending()
        while self.is_blocked and self._writable.poll(max(0.0, end_s - monotonic()) * 1000):
            self.write_pending()

    def forget_pending(self) -> None:
        self._lock = Lock()
        self._pending.clear()
        self._dropped = 0
        self.is_blocked = False

    def _write_pending(self) -> None:
        try:
            while self._pending or self._dropped:
                if self._pending:
                    # Whole lines, so that lines of other processes don't split them when the reader resumes.
                    piece = _first_lines(self._pending) if self.is_blocked else self._pending
                    del self._pending[: self._write_some(bytes(piece))]
                else:
                    broken = "" if self._is_at_line_start else "\n"
                    line = f"{broken}{self.describe_dropped(self._dropped)}\n".encode()
                    self._pending += line[self._write_some(line) :]
                    self._dropped = 0
            self.is_blocked = False
        except BlockingIOError:
            self.is_blocked = True
        except OSError:
            self._dropped += self._pending.count(b"\n")
            self._pending.clear()
            self.is_blocked = False

    def _write_some(self, piece: bytes) -> int:
        written = self._write_without_waiting(piece)
        self._is_at_line_start = piece[:written].endswith(b"\n")
        return written

    def _write_without_waiting(self, piece: bytes) -> int:
        if self._socket is not None:
            return self._socket.send(piece, socket.MSG_DONTWAIT)
        if self._polls_first:
            if not self._writable.poll(0):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            piece = piece[: select.PIPE_BUF]
        return os.write(self._fd, piece)


def _reopened(fd: int) -> int | None:
    """A new open file description of the same pipe or terminal; None without permission, as after `su`.

    O_NONBLOCK on the shared description would affect the shell and other processes too.
    """
    with suppress(OSError):
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    return None


def _first_lines(text: bytearray) -> bytearray:
    """The first lines that a pipe takes atomically (pipe(7)), or the beginning of a longer line."""
    return text[: text.rfind(b"\n", 0, select.PIPE_BUF) + 1 or select.PIPE_BUF]


def _describe_dropped(count: int) -> str:
    return f"kafkad: {count} lines were dropped because they could not be written"


_unblocked: list[UnblockedOutput] = []


def unblock_standard_streams() -> None:
    """Replace stdout and stderr of a broker by `UnblockedOutput`."""
    _unblocked.clear()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        output = UnblockedOutput(stream.fileno())
        _unblocked.append(output)
        setattr(sys, name, io.TextIOWrapper(output, stream.encoding, errors="backslashreplace", write_through=True))


def forget_pending() -> None:
    """In a child process: drop the pending lines of the parent."""
    for output in _unblocked:
        output.forget_pending()


def describe_dropped_by(describe: Callable[[int], str]) -> None:
    """Set the format of the line about dropped lines, to match the log."""
    for output in _unblocked:
        output.describe_dropped = describe


def write_pending() -> bool:
    """Retry to write pending lines; returns whether lines are still pending. Then call this again after `RETRY_S`."""
    has_pending = False
    for output in _unblocked:
        if output.is_blocked:
            output.write_pending()
            has_pending |= output.is_blocked
    return has_pending


def write_last(timeout_s: float = LAST_LINES_S) -> None:
    """Called before the process exits."""
    for output in _unblocked:
        output.write_last(timeout_s)


def print_lines(text: str, stream: TextIO) -> None:
    """Print lines; a failing stream does not end the broker."""
    with suppress(OSError):
        # One write, so that lines of several processes do not mix.
        stream.write(f"{text}\n")
        stream.flush()


def drop_unwritten() -> None:
    """Drop output that could not be written: a retry at the interpreter's exit would set the exit code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def is_no_space(error: OSError) -> bool:
    """Whether a write to a standard stream failed because of its disk. Errors with a file name have other causes."""
    return error.errno in _NO_SPACE and error.filename is None
