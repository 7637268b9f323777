"""A copy of the coordination store beside it, and the start from that copy when the store itself is lost.

The copy is replaced as a whole, a few seconds after a change. What is restored from it is put in place as a whole too:
a crash in between leaves the store lost and the copy as it was.
"""

import os
from collections.abc import Callable
from pathlib import Path

from kafkad.adapters.files.atomic_write import sync_directory, write_atomically, write_in_log_directory
from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.core.ports import StorageFailed

COPY_NAME = f"{FILE_NAME}.copy"
_ASIDE = f"{FILE_NAME}.tmp"
_BESIDE = ("-wal", "-shm")
"""SQLite would take what an earlier database has left there for changes of this one."""


def write_copy(store: EmbeddedStore, folder: Path) -> None:
    """Raises `StorageFailed`, and `NoSpaceLeft` with the old copy in place."""
    write_in_log_directory(str(folder / COPY_NAME), store.serialized())


def is_lost(folder: Path) -> bool:
    """Whether the store is missing, or was emptied. Raises `StorageFailed`."""
    try:
        with storage_errors(str(folder / FILE_NAME)):
            return (folder / FILE_NAME).stat().st_size == 0
    except FileNotFoundError:
        return True


def restore(folder: Path, session_id: int, adjust: Callable[[EmbeddedStore], None]) -> float:
    """Put the copy in the place of the store, after `adjust`; returns when the copy was written (seconds since 1970).

    Raises FileNotFoundError if there is no copy, `StorageFailed` if it is damaged, and `NoSpaceLeft`.
    """
    aside, target = folder / _ASIDE, folder / FILE_NAME
    with storage_errors(str(folder / COPY_NAME)):
        written_s = (folder / COPY_NAME).stat().st_mtime
        content = (folder / COPY_NAME).read_bytes()
    if not content:
        raise StorageFailed(f"{folder / COPY_NAME} is empty")
    for path in (aside, target):
        for suffix in _BESIDE:
            with storage_errors(str(path)):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
    write_atomically(str(aside), content)
    store = EmbeddedStore(aside, session_id)
    try:
        adjust(store)
    finally:
        store.close()
    with storage_errors(str(target)):
        os.replace(aside, target)
    sync_directory(str(folder))
    return written_s
