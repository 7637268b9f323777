"""Has a process hung? Judged by its beat, a number that changes at each turn of its loop, at rest every two seconds.

A silence counts from the first look at which the beat had not moved, so that neither a late look nor a machine
that was suspended makes anybody guilty. Whoever still uses the CPU, or waits for a disk, is given longer: the
next incarnation would have the same work to do, and SIGKILL would wait for the same disk.
"""

from dataclasses import dataclass

LOOK_MS = 2_500
"""How often it is looked: a beat must fall between two looks."""
SILENT_MS = 5_000
WORKING_MS = 30_000
"""The same for one that works or waits for a disk."""
UNKILLABLE_MS = 10_000
"""Whoever was killed for its silence is gone by then, or can't be helped by killing."""


@dataclass(slots=True, kw_only=True)
class Watchdog:
    """What is known of one incarnation: `look` at its beat, and `judge` by its activity when the beat has not moved."""

    _heartbeat: int | None = None
    _since_ms: int = 0
    _looked_ms: int = 0
    _cpu_ticks: int | None = None
    killed_ms: int | None = None
    """When it was killed for having hung."""

    def look(self, heartbeat: int, now_ms: int) -> bool:
        """True when the beat has not moved since the look before."""
        was_late = now_ms - self._looked_ms > 2 * LOOK_MS
        self._looked_ms = now_ms
        if heartbeat != self._heartbeat or was_late:
            self._heartbeat, self._since_ms = heartbeat, now_ms
            self._cpu_ticks = None
            return False
        return True

    def judge(self, now_ms: int, *, cpu_ticks: int, waits_for_disk: bool, may_work_on: bool) -> bool:
        """True when it has hung. `may_work_on`: while it works it is given any time."""
        is_working = waits_for_disk or self._cpu_ticks != cpu_ticks
        self._cpu_ticks = cpu_ticks
        silent_ms = now_ms - self._since_ms
        if silent_ms < SILENT_MS:
            return False
        return not is_working or (silent_ms >= WORKING_MS and not may_work_on)

    def outlives_kill(self, now_ms: int) -> bool:
        """True when it was killed, and should have been gone for long."""
        return self.killed_ms is not None and now_ms - self.killed_ms >= UNKILLABLE_MS
