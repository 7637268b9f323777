"""When a broker is a candidate for the next controller term: at once, or after a pause if the error may persist."""

from collections.abc import Callable

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.coordination_store import CoordinationError, NotPermitted, UnexpectedResponse

RETRY_MS = 1_000


class NextTerm:
    def __init__(self, run: Callable[[], None], clock: Callable[[], int] = monotonic_ms) -> None:
        self._run = run
        self._clock = clock
        self.next_deadline_ms: int | None = None

    def ended(self, error: CoordinationError) -> None:
        if isinstance(error, UnexpectedResponse | NotPermitted):
            self.next_deadline_ms = self._clock() + RETRY_MS
        else:
            self._run()

    def tick(self, now_ms: int) -> None:
        if self.next_deadline_ms is not None and self.next_deadline_ms <= now_ms:
            self.next_deadline_ms = None
            self._run()
