"""Detects hung processes by their heartbeat, a number that changes in each pass of their loop.

The silence counts from the first check without a change of the heartbeat, so that a late check or a suspended machine
blames no process. A process that uses the CPU, or waits for a CPU or a disk, has a longer limit: its next incarnation
would have the same work, and SIGKILL would wait for the same disk.
"""

from dataclasses import dataclass

CHECK_INTERVAL_MS = 2_500
"""The interval of checks: the heartbeat must change between two of them."""
SILENT_MS = 5_000
WORKING_MS = 30_000
"""The limit for a process that works, or waits for a CPU or a disk."""
UNKILLABLE_MS = 10_000
"""A killed process has ended by then, or SIGKILL can't end it."""


@dataclass(slots=True, kw_only=True)
class Watchdog:
    """One incarnation: `is_silent` checks its heartbeat, then `is_hung` its activity."""

    _heartbeat: int | None = None
    _since_ms: int = 0
    _checked_ms: int = 0
    _cpu_ticks: int | None = None
    killed_ms: int | None = None
    """The time at which it was killed as hung."""

    def is_silent(self, heartbeat: int, now_ms: int) -> bool:
        """True if the heartbeat has not changed since the last check."""
        was_late = now_ms - self._checked_ms > 2 * CHECK_INTERVAL_MS
        self._checked_ms = now_ms
        if heartbeat != self._heartbeat or was_late:
            self._heartbeat, self._since_ms = heartbeat, now_ms
            self._cpu_ticks = None
            return False
        return True

    def is_hung(self, now_ms: int, *, cpu_ticks: int, is_runnable: bool, may_work_longer: bool) -> bool:
        """`is_runnable`: it runs, or waits for a CPU or a disk. `may_work_longer`: no limit while it works."""
        is_working = is_runnable or self._cpu_ticks != cpu_ticks
        self._cpu_ticks = cpu_ticks
        silent_ms = now_ms - self._since_ms
        if silent_ms < SILENT_MS:
            return False
        return not is_working or (silent_ms >= WORKING_MS and not may_work_longer)

    def outlives_kill(self, now_ms: int) -> bool:
        """True if it was killed long ago and has not ended."""
        return self.killed_ms is not None and now_ms - self.killed_ms >= UNKILLABLE_MS
