"""The session of a single broker with its embedded store: it lasts as long as the broker, and is never lost."""

import hashlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION
from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.adapters.stores.store_copy import write_copy
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.processes.controller.store.copies import open_store
from kafkad.processes.controller.store.sessions import Stopped
from kafkad.processes.runtime.child import ChildContext

log = logging.getLogger(__name__)
Result = TypeVar("Result")

SPACE_CHECK_S = 1.0
"""How often an incarnation retries its start while the disk is full."""


class EmbeddedSession:
    """Implements `Sessions` of processes/controller/store/sessions.py."""

    def __init__(self, context: ChildContext) -> None:
        directories = context.log_directories
        self._folder = directories[0].path
        self._paths = [directories[0].path, *(each.path for each in directories[1:] if each.is_online)]
        self._session_id = session_id(context.runtime_dir)
        self._node_id = context.config.node_id
        self._waits_for_space = context.incarnation != FIRST_INCARNATION
        self._stopping = threading.Event()

    def begin(self, work: Callable[[EmbeddedStore], Result]) -> Result:
        """With a full disk the broker does not start; a later incarnation waits, and the other processes continue. A
        full disk leaves the same state as a crash at that moment.
        """
        has_logged = False
        while True:
            try:
                return self._begin(work)
            except NoSpaceLeft as error:
                if not self._waits_for_space:
                    raise StorageFailed(str(error)) from error
                if not has_logged:
                    log.error("disk full, topics can't be changed: %s", error)
                has_logged = True
            self.pause(SPACE_CHECK_S)

    def _begin(self, work: Callable[[EmbeddedStore], Result]) -> Result:
        store = open_store(self._paths, self._session_id, self._node_id)
        try:
            return work(store)
        except BaseException:
            # The next attempt opens the store again, which must not be locked.
            store.close()
            raise

    def pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopped

    def stop(self) -> None:
        self._stopping.set()

    def end(self, store: EmbeddedStore) -> None:
        store.end_session()
        try:
            write_copy(store, self._folder)
        except StorageFailed as failure:
            log.error("can't write the copy of the coordination store, keeping the old one: %s", failure)
        store.close()


def session_id(runtime_dir: Path) -> int:
    """The session lasts as long as the broker, whose runtime directory has a unique name."""
    digest = hashlib.blake2b(runtime_dir.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
