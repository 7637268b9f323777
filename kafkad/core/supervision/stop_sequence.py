"""The order in which the processes of a broker stop, and how long each may take.

First the network processes: listeners close and pending replies are sent. Then the cleaners, so that no log changes
under the workers; the workers flush and checkpoint; the controller closes its store; the reporter shows all of that. A
stage begins when the processes of the previous one have ended.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

STAGES = ("network", "fetcher", "cleaner", "worker", "controller", "reporter")

STAGE_MS = {
    "network": 15_000,
    "fetcher": 5_000,
    "cleaner": 10_000,
    # Flushing thousands of logs to a slow disk takes long. A worker killed here only loses the clean-shutdown marker,
    # but then the next start scans all logs, which takes even longer.
    "worker": 120_000,
    "controller": 15_000,
    "reporter": 5_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRole:
    """Stop the live processes of `role`, and kill those that are still live at `deadline_ms`."""

    role: str
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class StopSequence:
    """The progress of a stop. `current` is None before the first stage and after the last."""

    stage_ms: Mapping[str, int] = field(default_factory=lambda: STAGE_MS)
    current: StopRole | None = None
    is_over: bool = False
    _next_stage: int = 0

    def advance(self, live_roles: Iterable[str], now_ms: int) -> StopRole | None:
        """The next stage when the present one has ended; None: nothing to do now."""
        live = set(live_roles)
        if self.is_over or (self.current is not None and self.current.role in live):
            return None
        while self._next_stage < len(STAGES):
            role = STAGES[self._next_stage]
            self._next_stage += 1
            if role in live:
                self.current = StopRole(role=role, deadline_ms=now_ms + self.stage_ms[role])
                return self.current
        assert not live, f"no stage stops {sorted(live)}"
        self.current = None
        self.is_over = True
        return None
