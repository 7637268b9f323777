"""When is a process that died started again, and when is its broker hopeless?

The first restart is immediate, each further one waits twice as long, and ten seconds in which an incarnation serves
make up for one death. So whoever is killed now and then is back at once, and whoever dies over and over, of a request
that its clients send again, leaves the machine to the others most of the time. Only a start can fail for it: a broker
that has served goes on with what lives.
"""

from collections import deque
from dataclasses import dataclass, field

FIRST_DELAY_MS = 100
LONGEST_DELAY_MS = 10_000
MADE_UP_AFTER_MS = 10_000
"""An incarnation that has served for this long makes up for one death, one of twice that for two."""
LOOK_BACK_MS = 600_000
FAILURES_ALLOWED = 10
_MOST_COUNTED = 9
"""Whoever has died so often waits for the longest time; more would only take longer to be made up for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Begin the next incarnation at `at_ms`."""

    at_ms: int
    recent_deaths: int
    """Within ten minutes, this one included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoop:
    """Give up: that many incarnations ended, and the broker has not come up."""

    failures: int


@dataclass(slots=True, kw_only=True)
class RestartBackoff:
    """The deaths of one process."""

    failures_allowed: int = FAILURES_ALLOWED
    _ready_at_ms: int | None = None
    _counted: int = 0
    """Deaths that nothing has made up for yet."""
    _failures: int = 0
    _deaths_ms: deque[int] = field(default_factory=deque)

    def ready(self, now_ms: int) -> None:
        """The present incarnation serves."""
        self._ready_at_ms = now_ms

    def died(self, now_ms: int, *, has_served: bool) -> Restart | CrashLoop:
        """The present incarnation is over and reaped. `has_served`: all processes have been ready once."""
        ready_at_ms, self._ready_at_ms = self._ready_at_ms, None
        if not has_served:
            self._failures += 1
            if self._failures > self.failures_allowed:
                return CrashLoop(failures=self._failures)
        served_ms = 0 if ready_at_ms is None else now_ms - ready_at_ms
        self._counted = max(0, self._counted - served_ms // MADE_UP_AFTER_MS)
        self._counted = min(_MOST_COUNTED, self._counted + 1)
        while self._deaths_ms and self._deaths_ms[0] <= now_ms - LOOK_BACK_MS:
            self._deaths_ms.popleft()
        self._deaths_ms.append(now_ms)
        return Restart(at_ms=now_ms + _delay_ms(self._counted), recent_deaths=len(self._deaths_ms))

    def not_begun(self, now_ms: int) -> int:
        """The machine has no room for the next incarnation; when to try again. No death, but no hurry either."""
        self._counted = min(_MOST_COUNTED, max(1, self._counted) + 1)
        return now_ms + _delay_ms(self._counted)


def _delay_ms(deaths: int) -> int:
    return 0 if deaths == 1 else min(LONGEST_DELAY_MS, FIRST_DELAY_MS << (deaths - 2))
