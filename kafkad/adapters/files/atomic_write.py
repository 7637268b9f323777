"""Write a file so that after a crash at any point it holds its old content or the new one.

It is written aside, synced and renamed, and the directory synced. What a crash leaves aside ends in `.tmp`.
"""

import os

from kafkad.adapters.files.storage_errors import storage_errors

_ASIDE = ".tmp"


def write_atomically(path: str, content: bytes) -> None:
    aside = path + _ASIDE
    with storage_errors(path):
        with open(aside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    sync_directory(os.path.dirname(path) or ".")


def sync_directory(path: str) -> None:
    """The names in it, as they are now, are there after a crash."""
    with storage_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
