"""Does the terminal that started this process still exist?"""

import errno
import termios

_STANDARD_STREAMS = (0, 1, 2)


def has_hung_up() -> bool:
    """Whether a standard stream is a terminal whose window was closed, or whose connection broke."""
    return any(_is_gone(descriptor) for descriptor in _STANDARD_STREAMS)


def _is_gone(descriptor: int) -> bool:
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        # The call fails with ENOTTY for anything but a terminal, with EBADF for a closed descriptor.
        return bool(error.args[0] == errno.EIO)
    return False
