"""When is a dead process started again, and when is the broker given up?

The first restart is immediate, each further one waits twice as long, and ten seconds of service make up for one death.
So a process that is killed now and then is back at once. A process that dies over and over, of a request that its
clients send again, leaves the machine to the others most of the time. The broker is given up only while it starts: once
it has served it goes on with the processes that live.
"""

from collections import deque
from dataclasses import dataclass, field

FIRST_DELAY_MS = 100
LONGEST_DELAY_MS = 10_000
MADE_UP_AFTER_MS = 10_000
"""An incarnation that has served for this long makes up for one death, for twice as long for two."""
CRASH_WINDOW_MS = 600_000
FAILURES_ALLOWED = 10
_MOST_COUNTED = 9
"""After so many deaths the delay is the longest; counting more would only prolong the recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Start the next incarnation at `at_ms`."""

    at_ms: int
    recent_deaths: int
    """Deaths within ten minutes, this one included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoop:
    """Give up: so many incarnations have ended, and the broker has not come up."""

    failures: int


@dataclass(slots=True, kw_only=True)
class RestartBackoff:
    """The deaths of one process."""

    failures_allowed: int = FAILURES_ALLOWED
    _ready_at_ms: int | None = None
    _counted: int = 0
    """Deaths without enough service since to make up for them."""
    _failures: int = 0
    _deaths_ms: deque[int] = field(default_factory=deque)

    def ready(self, now_ms: int) -> None:
        """The present incarnation serves."""
        self._ready_at_ms = now_ms

    def died(self, now_ms: int, *, has_served: bool) -> Restart | CrashLoop:
        """The present incarnation is dead and reaped. `has_served`: all processes have been ready once."""
        ready_at_ms, self._ready_at_ms = self._ready_at_ms, None
        if not has_served:
            self._failures += 1
            if self._failures > self.failures_allowed:
                return CrashLoop(failures=self._failures)
        served_ms = 0 if ready_at_ms is None else now_ms - ready_at_ms
        self._counted = max(0, self._counted - served_ms // MADE_UP_AFTER_MS)
        self._counted = min(_MOST_COUNTED, self._counted + 1)
        while self._deaths_ms and self._deaths_ms[0] <= now_ms - CRASH_WINDOW_MS:
            self._deaths_ms.popleft()
        self._deaths_ms.append(now_ms)
        return Restart(at_ms=now_ms + _delay_ms(self._counted), recent_deaths=len(self._deaths_ms))

    def not_begun(self, now_ms: int) -> int:
        """The machine can't start the next incarnation; returns when to try again. Not a death, but it adds to the
        delay."""
        self._counted = min(_MOST_COUNTED, max(1, self._counted) + 1)
        return now_ms + _delay_ms(self._counted)


def _delay_ms(deaths: int) -> int:
    return 0 if deaths == 1 else min(LONGEST_DELAY_MS, FIRST_DELAY_MS << (deaths - 2))
