"""Reserves space in a log directory for its checkpoints, so that they can be written on a full disk.

A file occupies the space. The space is freed before a checkpoint is written, and reserved again after the old
checkpoint was replaced.
"""

import os
from contextlib import suppress
from pathlib import Path

from kafkad.adapters.files.storage_errors import FULL, storage_errors
from kafkad.core.ports import StorageFailed

FILE_NAME = ".kafkad-reserved"
SIZE = 1 << 20
"""Three times the checkpoints of ten thousand partitions."""
_LEAST = 1 << 14


class ReservedSpace:
    """The reserved space of one directory. On a full disk as much as possible is reserved."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME

    def reserve(self) -> None:
        # Disk errors are ignored here: writes to the disk report them.
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
    """Allocate `size` bytes, or less on a full disk: the new checkpoint may be larger than the replaced one."""
    while True:
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in FULL or size <= _LEAST:
                raise
            size //= 2
        else:
            break
