"""Finds the process that holds a POSIX record lock on a file. The lock ends with the process."""

import fcntl
import os
from struct import Struct

_FLOCK_RECORD = Struct("hhqqi4x")
"""struct flock on 64-bit Linux: type, whence, start, length, pid."""


def holder_pid(descriptor: int) -> int | None:
    """The process that holds the lock on the open file; None without one, or if it is in another PID namespace."""
    query = _FLOCK_RECORD.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK_RECORD.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None
