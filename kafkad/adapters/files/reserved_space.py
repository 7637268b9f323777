"""Room of a log directory that is kept for its checkpoints, so that a full disk does not make them old.

A file holds the room. It is given back to the file system for one write, after which the file that was replaced is
gone and its room is kept instead.
"""

import os
from contextlib import suppress
from pathlib import Path

from kafkad.adapters.files.storage_errors import FULL, storage_errors
from kafkad.core.ports import StorageFailed

FILE_NAME = ".kafkad-reserved"
SIZE = 1 << 20
"""Checkpoints of ten thousand partitions take a third of it."""
_LEAST = 1 << 14


class ReservedSpace:
    """Of one directory. A disk that is full already gives little or nothing; there may be room the next time."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME

    def keep(self) -> None:
        # A disk that has failed is noticed by whoever writes to it.
        with suppress(StorageFailed, FileNotFoundError), storage_errors(str(self._path)):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                _allocate(descriptor, SIZE)
            finally:
                os.close(descriptor)

    def free(self) -> None:
        with suppress(StorageFailed, FileNotFoundError), storage_errors(str(self._path)):
            os.truncate(self._path, 0)


def _allocate(descriptor: int, size: int) -> None:
    """As much of it as there is: the file that was written may be larger than the one that it replaced."""
    while True:
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in FULL or size <= _LEAST:
                raise
            size //= 2
        else:
            break
