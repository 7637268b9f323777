"""When does the elected controller ask brokers again to delete replicas that they could not delete?

A minute later, whatever refused them: a full or a failed disk. Apache Kafka asks when the broker starts again, or when
there is another controller.
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
