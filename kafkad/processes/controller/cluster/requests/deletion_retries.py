"""When the elected controller retries failed replica deletions: a minute later, after a full or a failed disk.

Apache Kafka retries when the broker restarts, or when another controller is elected.
"""

from collections.abc import Callable

RETRY_MS = 60_000


class DeletionRetries:
    def __init__(self, retry: Callable[[], None]) -> None:
        self._retry = retry
        self.next_deadline_ms: int | None = None

    def tick(self, are_there_any: bool, now_ms: int) -> None:
        if not are_there_any:
            self.next_deadline_ms = None
        elif self.next_deadline_ms is None:
            self.next_deadline_ms = now_ms + RETRY_MS
        elif self.next_deadline_ms <= now_ms:
            self.next_deadline_ms = None
            self._retry()
