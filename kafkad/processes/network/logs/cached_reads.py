"""Reads from the page cache only, without waiting for a disk (RWF_NOWAIT)."""

import errno
import os


def is_cached(fd: int, position: int) -> bool:
    """Whether the byte is cached; also True if the file system does not support RWF_NOWAIT."""
    try:
        os.preadv(fd, [bytearray(1)], position, os.RWF_NOWAIT)
    except OSError as error:
        return error.errno != errno.EAGAIN
    return True


def read_cached(fd: int, position: int, length: int) -> bytearray | None:
    """The bytes; None unless all are in the page cache and the file system supports RWF_NOWAIT."""
    content = bytearray(length)
    try:
        return content if os.preadv(fd, [content], position, os.RWF_NOWAIT) == length else None
    except OSError:
        return None
