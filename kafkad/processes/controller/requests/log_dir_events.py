"""Notifies the controller of log directories that have failed, are full, or have free space again.

The notification is a node in ZooKeeper; its creation is retried. The controller then sends LeaderAndIsr again, and by
the error codes in the response it elects other replicas.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationError, CoordinationStore

log = logging.getLogger(__name__)

RETRY_MS = 1_000
Read = Callable[[Callable[[CoordinationStore], str], Callable[["Future[str]"], None]], None]


class LogDirEvents:
    """Call `tick` in each pass of the loop; it may sleep until `next_deadline_ms`.

    `read` does work with the present session, in the store's thread.
    """

    def __init__(self, broker_id: int, read: Read, clock: Callable[[], int] = monotonic_ms) -> None:
        self._data = nodes.encode(nodes.LogDirEventNode(broker=broker_id))
        self._read = read
        self._clock = clock
        self._has_logged = False
        self.next_deadline_ms: int | None = None

    def send(self) -> None:
        """Send a notification of one more change."""
        self.next_deadline_ms = self._clock()

    def tick(self, now_ms: int, *, is_registered: bool) -> None:
        if self.next_deadline_ms is None or now_ms < self.next_deadline_ms:
            return
        if not is_registered:
            self.next_deadline_ms = now_ms + RETRY_MS
            return
        self.next_deadline_ms = None
        self._read(lambda store: store.create(nodes.LOG_DIR_EVENT, self._data, sequence=True), self._on_created)

    def _on_created(self, future: "Future[str]") -> None:
        error = future.exception()
        if error is None:
            self._has_logged = False
            return
        if not isinstance(error, CoordinationError):
            raise error
        if not self._has_logged:
            log.error("can't notify the controller of the log directories, retrying: %s", error)
        self._has_logged = True
        if self.next_deadline_ms is None:
            self.next_deadline_ms = self._clock() + RETRY_MS
