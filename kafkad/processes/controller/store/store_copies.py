"""The copy of the coordination store of a single broker, written a few seconds after a change and at the stop."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.adapters.stores.store_copy import write_copy
from kafkad.core.coordination_store import CoordinationStore
from kafkad.core.ports import NoSpaceLeft, StorageFailed

log = logging.getLogger(__name__)

COPY_AFTER_MS = 5_000


class StoreReader(Protocol):
    """The session with the store (`Membership`)."""

    @property
    def store(self) -> CoordinationStore: ...

    def read(self, work: Callable[[CoordinationStore], None], done: Callable[["Future[None]"], None]) -> None:
        """Do `work` in the store's thread."""


class StoreCopies:
    """Writes the copy in the store's thread, some seconds after a change."""

    def __init__(self, session: StoreReader, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._copied = -1
        self._due_ms: int | None = None
        self.failure: str | None = None
        """Why the log directory can no longer be written."""

    @property
    def next_deadline_ms(self) -> int | None:
        return self._due_ms

    def tick(self, now_ms: int) -> None:
        last_change = self._store.last_change
        if self._due_ms is None and last_change != self._copied:
            self._due_ms = now_ms + COPY_AFTER_MS
        if self._due_ms is not None and now_ms >= self._due_ms:
            self._due_ms = None
            self._copied = last_change
            store = self._store
            self._session.read(lambda _store: write_copy(store, self._folder), self._written)

    @property
    def _store(self) -> EmbeddedStore:
        store = self._session.store
        assert isinstance(store, EmbeddedStore), "only a single broker has copies"
        return store

    def _written(self, future: "Future[None]") -> None:
        error = future.exception()
        if isinstance(error, NoSpaceLeft):
            log.error("can't write the copy of the coordination store, keeping the old one: %s", error)
        elif isinstance(error, StorageFailed):
            self.failure = str(error)
        elif error is not None:
            raise error
