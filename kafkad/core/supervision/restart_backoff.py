"""Decides when a failed process is restarted, and when a start is abandoned.

The first restart is immediate, the delay of each further one doubles, and ten seconds of service compensate for one
failure. So a process that is killed rarely is restarted at once. A process that fails repeatedly, for example by a
request that clients repeat, leaves the machine to the others most of the time. Only a start is abandoned: a broker that
has served continues with its live processes.
"""

from collections import deque
from dataclasses import dataclass, field

FIRST_DELAY_MS = 100
LONGEST_DELAY_MS = 10_000
COMPENSATION_MS = 10_000
"""An incarnation that has served for this time compensates for one failure, twice this time for two."""
CRASH_WINDOW_MS = 600_000
FAILURES_ALLOWED = 10
_MAX_COUNTED = 9
"""After this many failures the delay is the longest; counting more would only prolong the recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Start the next incarnation at `at_ms`."""

    at_ms: int
    recent_deaths: int
    """The failures within ten minutes, including this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoop:
    """Abort the start: this many incarnations have ended before the broker served."""

    failures: int


@dataclass(slots=True, kw_only=True)
class RestartBackoff:
    """The failures of one process."""

    failures_allowed: int = FAILURES_ALLOWED
    _ready_at_ms: int | None = None
    _counted: int = 0
    """The failures that are not compensated by service."""
    _failures: int = 0
    _deaths_ms: deque[int] = field(default_factory=deque)

    def ready(self, now_ms: int) -> None:
        """The present incarnation serves."""
        self._ready_at_ms = now_ms

    def died(self, now_ms: int, *, has_served: bool) -> Restart | CrashLoop:
        """The present incarnation has ended. `has_served`: all processes have been ready once."""
        ready_at_ms, self._ready_at_ms = self._ready_at_ms, None
        if not has_served:
            self._failures += 1
            if self._failures > self.failures_allowed:
                return CrashLoop(failures=self._failures)
        served_ms = 0 if ready_at_ms is None else now_ms - ready_at_ms
        self._counted = max(0, self._counted - served_ms // COMPENSATION_MS)
        self._counted = min(_MAX_COUNTED, self._counted + 1)
        while self._deaths_ms and self._deaths_ms[0] <= now_ms - CRASH_WINDOW_MS:
            self._deaths_ms.popleft()
        self._deaths_ms.append(now_ms)
        return Restart(at_ms=now_ms + _delay_ms(self._counted), recent_deaths=len(self._deaths_ms))

    def not_begun(self, now_ms: int) -> int:
        """The machine can't start the next incarnation; returns the time of the next attempt. Not a failure, but it
        increases the delay."""
        self._counted = min(_MAX_COUNTED, max(1, self._counted) + 1)
        return now_ms + _delay_ms(self._counted)


def _delay_ms(deaths: int) -> int:
    return 0 if deaths == 1 else min(LONGEST_DELAY_MS, FIRST_DELAY_MS << (deaths - 2))
