"""Checks whether the terminal of this process still exists."""

import errno
import termios

_STANDARD_STREAMS = (0, 1, 2)


def has_hung_up() -> bool:
    """Whether a standard stream is a terminal that was closed or disconnected."""
    return any(_is_gone(descriptor) for descriptor in _STANDARD_STREAMS)


def _is_gone(descriptor: int) -> bool:
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        # ENOTTY: not a terminal; EBADF: a closed descriptor.
        return bool(error.args[0] == errno.EIO)
    return False
