"""Write a file so that after a crash at any point it holds its old content or the new one.

The content goes to a `.tmp` file, which is synced and renamed; then the directory is synced. A crash may leave the
`.tmp` file. Without the syncs that holds for the death of a process only.
"""

import os

from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.core.ports import StorageFailed

_ASIDE = ".tmp"


def write_atomically(path: str, content: bytes, mode: int = 0o666) -> None:
    """`mode` as for open(2): less what the umask takes away."""
    _replace(path, content, mode, is_synced=True)
    sync_directory(os.path.dirname(path) or ".")


def write_in_log_directory(path: str, content: bytes, mode: int = 0o666) -> None:
    """The same for a file of a log directory itself: if that was removed, it raises StorageFailed."""
    try:
        write_atomically(path, content, mode)
    except FileNotFoundError as error:
        raise StorageFailed(f"{path}: {error}") from error


def write_whole(path: str, content: bytes) -> None:
    """For content that is synced later, and made anew if it was lost with the power before."""
    _replace(path, content, 0o666, is_synced=False)


def _replace(path: str, content: bytes, mode: int, *, is_synced: bool) -> None:
    aside = path + _ASIDE
    with storage_errors(path):
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            left = memoryview(content)
            while left:
                # On a disk that fills up less may be written than there is.
                written = os.write(descriptor, left)
                left = left[written:]
            if is_synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(aside, path)


def sync_directory(path: str) -> None:
    """Sync the directory, so that its present file names survive a crash."""
    with storage_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
