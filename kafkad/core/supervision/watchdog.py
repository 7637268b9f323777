"""Has a process hung? Its heartbeat, a number that changes at each turn of its loop, is checked every two seconds.

Silence counts from the first check at which the heartbeat had not moved, so a late check or a machine that was
suspended blames no process. A process that still uses the CPU, or waits for one or for a disk, gets longer: its next
incarnation would have the same work to do, and SIGKILL would wait for the same disk.
"""

from dataclasses import dataclass

CHECK_INTERVAL_MS = 2_500
"""Interval of checks: the heartbeat must move between two of them."""
SILENT_MS = 5_000
WORKING_MS = 30_000
"""The limit for a process that works, or waits for a CPU or a disk."""
UNKILLABLE_MS = 10_000
"""A process killed for its silence is gone by then, or SIGKILL can't end it."""


@dataclass(slots=True, kw_only=True)
class Watchdog:
    """One incarnation: `look` checks its heartbeat, and `judge` its activity when the heartbeat has not moved."""

    _heartbeat: int | None = None
    _since_ms: int = 0
    _looked_ms: int = 0
    _cpu_ticks: int | None = None
    killed_ms: int | None = None
    """When it was killed because it had hung."""

    def look(self, heartbeat: int, now_ms: int) -> bool:
        """True when the heartbeat has not moved since the last check."""
        was_late = now_ms - self._looked_ms > 2 * CHECK_INTERVAL_MS
        self._looked_ms = now_ms
        if heartbeat != self._heartbeat or was_late:
            self._heartbeat, self._since_ms = heartbeat, now_ms
            self._cpu_ticks = None
            return False
        return True

    def judge(self, now_ms: int, *, cpu_ticks: int, wants_on: bool, may_work_on: bool) -> bool:
        """True when it has hung. `may_work_on`: there is no limit while it works."""
        is_working = wants_on or self._cpu_ticks != cpu_ticks
        self._cpu_ticks = cpu_ticks
        silent_ms = now_ms - self._since_ms
        if silent_ms < SILENT_MS:
            return False
        return not is_working or (silent_ms >= WORKING_MS and not may_work_on)

    def outlives_kill(self, now_ms: int) -> bool:
        """True when it was killed long ago and should be gone."""
        return self.killed_ms is not None and now_ms - self.killed_ms >= UNKILLABLE_MS
