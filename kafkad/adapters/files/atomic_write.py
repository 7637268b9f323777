"""Atomic writes: after a crash at any point the file has its old or its new content.

The content is written to a `.tmp` file, which is synced and renamed; then the directory is synced. A crash may leave
the `.tmp` file. Without the syncs a write is atomic only if the process dies, not if the machine does.
"""

import os

from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.core.ports import StorageFailed

_TEMPORARY = ".tmp"


def write_atomically(path: str, content: bytes, mode: int = 0o666) -> None:
    """`mode` as for open(2), without the bits of the umask. Raises StorageFailed, NoSpaceLeft."""
    _replace(path, content, mode, is_synced=True)
    sync_directory(os.path.dirname(path) or ".")


def write_in_log_directory(path: str, content: bytes, mode: int = 0o666) -> None:
    """As `write_atomically`, for a file of a log directory. Raises StorageFailed if the log directory was removed."""
    try:
        write_atomically(path, content, mode)
    except FileNotFoundError as error:
        raise StorageFailed(f"{path}: {error}") from error


def write_whole(path: str, content: bytes) -> None:
    """Write without syncs, for content that is synced later, and written again after a power failure."""
    _replace(path, content, 0o666, is_synced=False)


def _replace(path: str, content: bytes, mode: int, *, is_synced: bool) -> None:
    temporary = path + _TEMPORARY
    with storage_errors(path):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            remaining = memoryview(content)
            while remaining:
                # On a nearly full disk a write may be partial.
                written = os.write(descriptor, remaining)
                remaining = remaining[written:]
            if is_synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)


def sync_directory(path: str) -> None:
    """Sync the directory, so that its current file names survive a crash."""
    with storage_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
