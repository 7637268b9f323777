"""Standard streams that may be closed, broken or full.

A shell may close them (`>&-`): the next file or socket would get that number, and prints would go into it. Their
reader may end, and the disk behind them may be full: that ends a command, but never a broker.
"""

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TextIO

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def hold_standard_streams() -> None:
    """Puts /dev/null in the place of each one that is closed."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode))


def unbuffer_standard_streams() -> None:
    """Output that can't be written is dropped; otherwise each fork and the interpreter's end would fail on it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        unbuffered = io.FileIO(stream.fileno(), "w", closefd=False)
        encoding = stream.encoding
        setattr(sys, name, io.TextIOWrapper(unbuffered, encoding, errors="backslashreplace", write_through=True))


def say(text: str, stream: TextIO) -> None:
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


def is_no_room(error: OSError) -> bool:
    """Did a write to a standard stream fail for its disk? An error of a named file is not about them."""
    return error.errno in _NO_ROOM and error.filename is None
