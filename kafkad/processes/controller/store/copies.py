"""Writes the copy of the coordination store: a few seconds after a change, and at the stop."""

import logging
from collections.abc import Callable
from pathlib import Path

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.adapters.stores.store_copy import write_copy
from kafkad.core.ports import NoSpaceLeft, StorageFailed

log = logging.getLogger(__name__)

COPY_AFTER_MS = 5_000


class StoreCopies:
    """`failed` is called when the log directory can no longer be written."""

    def __init__(self, store: EmbeddedStore, folder: Path, failed: Callable[[str], None]) -> None:
        self._store = store
        self._folder = folder
        self._failed = failed
        self._copied = -1
        self._due_ms: int | None = None

    @property
    def next_deadline_ms(self) -> int | None:
        return self._due_ms

    def write_due(self, now_ms: int) -> None:
        """In each pass: notice a change, and write the copy when it is due."""
        if self._due_ms is None and self._store.last_change != self._copied:
            self._due_ms = now_ms + COPY_AFTER_MS
        if self._due_ms is not None and now_ms >= self._due_ms:
            self._due_ms = None
            self.write()

    def write(self) -> None:
        self._copied = self._store.last_change
        try:
            write_copy(self._store, self._folder)
        except NoSpaceLeft as no_space:
            log.error("can't write the copy of the coordination store, keeping the old one: %s", no_space)
        except StorageFailed as failure:
            self._failed(str(failure))
