"""The streams that somebody else opened, closed or stopped reading: what may be expected of them, and what not.

A shell may close them (`>&-`): the next file or socket would get that number, and whatever prints would write into it.
Who reads them may go away, and the disk behind them may be full: that ends a command, but never a broker.
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
    """What can't be written is lost, and is not tried again: each fork and the interpreter's end would fail over it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        unbuffered = io.FileIO(stream.fileno(), "w", closefd=False)
        encoding = stream.encoding
        setattr(sys, name, io.TextIOWrapper(unbuffered, encoding, errors="backslashreplace", write_through=True))


def say(text: str, stream: TextIO) -> None:
    """Lines for whoever looks. That nobody does is no reason for a broker to end."""
    with suppress(OSError):
        # In one write, so that the lines of several processes do not mix.
        stream.write(f"{text}\n")
        stream.flush()


def drop_unwritten() -> None:
    """Gives up what could not be written: tried again at the interpreter's end, it would make that exit with 120."""
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
