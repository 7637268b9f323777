"""Write a file so that after a crash at any point it holds its old content or the new one.

The content goes to a `.tmp` file, which is synced and renamed; then the directory is synced. A crash may leave the
`.tmp` file.
"""

import os

from kafkad.adapters.files.storage_errors import storage_errors

_ASIDE = ".tmp"


def write_atomically(path: str, content: bytes, mode: int = 0o666) -> None:
    """`mode` as for open(2): less what the umask takes away."""
    aside = path + _ASIDE
    with storage_errors(path):
        with open(aside, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    sync_directory(os.path.dirname(path) or ".")


def sync_directory(path: str) -> None:
    """Sync the directory, so that its present file names survive a crash."""
    with storage_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
