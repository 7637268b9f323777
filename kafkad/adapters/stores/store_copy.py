"""A copy of the coordination store beside it, and the restore of a lost store from the copy.

The copy is replaced atomically, a few seconds after a change. The restore is atomic too: after a crash in between the
store is still lost, and the copy unchanged.
"""

import os
from collections.abc import Callable
from pathlib import Path

from kafkad.adapters.files.atomic_write import sync_directory, write_atomically, write_in_log_directory
from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.core.ports import StorageFailed

COPY_NAME = f"{FILE_NAME}.copy"
_TEMPORARY_NAME = f"{FILE_NAME}.tmp"
_SQLITE_SUFFIXES = ("-wal", "-shm")
"""Files of an earlier database, which SQLite would take for changes of this database."""


def write_copy(store: EmbeddedStore, folder: Path) -> None:
    """Raises `StorageFailed`, and `NoSpaceLeft` without a change of the old copy."""
    write_in_log_directory(str(folder / COPY_NAME), store.serialized())


def is_lost(folder: Path) -> bool:
    """Whether the store is missing or empty. Raises `StorageFailed`."""
    try:
        with storage_errors(str(folder / FILE_NAME)):
            return (folder / FILE_NAME).stat().st_size == 0
    except FileNotFoundError:
        return True


def restore(folder: Path, session_id: int, adjust: Callable[[EmbeddedStore], None]) -> float:
    """Restore the store from the copy, after `adjust`; returns the time of the copy (seconds since 1970).

    Raises FileNotFoundError if there is no copy, `StorageFailed` if it is damaged, and `NoSpaceLeft`.
    """
    temporary, target = folder / _TEMPORARY_NAME, folder / FILE_NAME
    with storage_errors(str(folder / COPY_NAME)):
        written_s = (folder / COPY_NAME).stat().st_mtime
        content = (folder / COPY_NAME).read_bytes()
    if not content:
        raise StorageFailed(f"{folder / COPY_NAME} is empty")
    for path in (temporary, target):
        for suffix in _SQLITE_SUFFIXES:
            with storage_errors(str(path)):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
    write_atomically(str(temporary), content)
    store = EmbeddedStore(temporary, session_id)
    try:
        adjust(store)
    finally:
        store.close()
    with storage_errors(str(target)):
        os.replace(temporary, target)
    sync_directory(str(folder))
    return written_s
