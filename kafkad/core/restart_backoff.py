"""When is a process that died started again, and when is it hopeless?

A life that died before it was ready, or right after, has failed: the first restart is immediate, further ones
wait exponentially longer, and too many within a minute are a crash loop. A life that had settled down starts
this anew: somebody killed it, its code is not the reason.
"""

from dataclasses import dataclass, field

SETTLED_AFTER_MS = 1000
FIRST_DELAY_MS = 100
LONGEST_DELAY_MS = 10_000
WINDOW_MS = 60_000
FAILURES_ALLOWED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Begin the next life at `at_ms`."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoop:
    """Give up: that many lives failed within the window."""

    failures: int


@dataclass(slots=True, kw_only=True)
class RestartBackoff:
    """The failed lives of one process."""

    failures_allowed: int = FAILURES_ALLOWED
    _ready_at_ms: int | None = None
    _in_a_row: int = 0
    _failed_at_ms: list[int] = field(default_factory=list)

    def ready(self, now_ms: int) -> None:
        """The present life serves."""
        self._ready_at_ms = now_ms

    def died(self, now_ms: int) -> Restart | CrashLoop:
        """The present life is over and reaped."""
        ready_at_ms, self._ready_at_ms = self._ready_at_ms, None
        if ready_at_ms is not None and now_ms - ready_at_ms >= SETTLED_AFTER_MS:
            self._in_a_row = 0
            return Restart(at_ms=now_ms)
        self._failed_at_ms = [at for at in self._failed_at_ms if at > now_ms - WINDOW_MS]
        self._failed_at_ms.append(now_ms)
        if len(self._failed_at_ms) > self.failures_allowed:
            return CrashLoop(failures=len(self._failed_at_ms))
        self._in_a_row += 1
        return Restart(at_ms=now_ms + _delay_ms(self._in_a_row))


def _delay_ms(failures_in_a_row: int) -> int:
    if failures_in_a_row == 1:
        return 0
    # The shift is bounded so that no huge number is built before it is cut.
    return min(LONGEST_DELAY_MS, FIRST_DELAY_MS << min(failures_in_a_row - 2, 20))
