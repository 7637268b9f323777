"""Measures the free bytes in the file system of a directory."""

import os

from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.core.types import FreeSpace


def measure_free_space(path: str) -> FreeSpace:
    """The free space without the blocks reserved for root. Raises StorageFailed."""
    with storage_errors(path):
        volume = os.statvfs(path)
    return FreeSpace(free_bytes=volume.f_bavail * volume.f_frsize, total_bytes=volume.f_blocks * volume.f_frsize)
