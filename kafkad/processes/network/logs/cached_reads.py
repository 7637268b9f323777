"""Reads from files that do not wait for a disk (RWF_NOWAIT): what the page cache has, or nothing."""

import errno
import os


def is_cached(fd: int, position: int) -> bool:
    """Also true where the file system can't say: then the read is simply made."""
    try:
        os.preadv(fd, [bytearray(1)], position, os.RWF_NOWAIT)
    except OSError as error:
        return error.errno != errno.EAGAIN
    return True


def read_cached(fd: int, position: int, length: int) -> bytearray | None:
    """All of it; None when some is not in the page cache, or the file system can't say."""
    content = bytearray(length)
    try:
        return content if os.preadv(fd, [content], position, os.RWF_NOWAIT) == length else None
    except OSError:
        return None
