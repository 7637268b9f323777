"""Periodic checks of the children's heartbeats, and notifications to the service manager.

A child whose heartbeat stops writes its stacks, is killed, and is restarted like any child that exited. The service
manager is notified while all children are healthy; it restarts the broker when a killed child does not exit or the
supervisor itself hangs.
"""

import logging

from kafkad.adapters.operating_system.process_activity import activity
from kafkad.adapters.operating_system.service_manager import ServiceManager
from kafkad.adapters.shared_memory.counters import Counters
from kafkad.adapters.shared_memory.process_registry import ProcessRegistry, ProcessState
from kafkad.core.metrics.catalogue import BUSY_NS
from kafkad.core.supervision.watchdog import CHECK_INTERVAL_MS
from kafkad.processes.supervisor.children import Children, Incarnation

log = logging.getLogger(__name__)

STATUS_INTERVAL_MS = 200
"""How often the status text of a start or stop is updated."""
STACKS_MS = 200
"""The time for a hung child to write its stacks, in a signal handler."""
START_EXTENSION_S = 30
"""Each successful check extends the start timeout by this time."""


class Watch:
    """Call `check` at `next_ms`."""

    def __init__(
        self, children: Children, counters: Counters, registry: ProcessRegistry, service: ServiceManager, now_ms: int
    ) -> None:
        self._children = children
        self._registry = registry
        self._service = service
        self._blocks = {key: counters.block(registry.slot(key)) for key in registry.keys}
        self._interval_ms = min(CHECK_INTERVAL_MS, service.watchdog_ms // 3) or CHECK_INTERVAL_MS
        self._next_check_ms = now_ms + self._interval_ms
        self._last_status = ""
        self._hung: list[Incarnation] = []
        """Hung incarnations, which are killed after the time for their stacks."""
        self._kill_ms = now_ms
        self._kill_failed = False
        # At once: the first text of a start.
        self.next_ms = now_ms

    def check(self, now_ms: int, *, is_starting: bool, is_stopping: bool, text: str | None) -> None:
        """`text` is the progress of a start or a stop; None if it has not changed."""
        if self._hung and now_ms >= self._kill_ms:
            self._kill_hung(now_ms)
        if now_ms >= self._next_check_ms:
            self._next_check_ms = now_ms + self._interval_ms
            if self._all_healthy(now_ms):
                self._service.alive()
                if is_starting and text is not None:
                    self._last_status = text
                    self._service.starting_for(START_EXTENSION_S, text)
        if text is not None and text != self._last_status:
            self._last_status = text
            self._service.status(text)
        soon_ms = now_ms + STATUS_INTERVAL_MS if is_starting or is_stopping else self._next_check_ms
        self.next_ms = min(self._next_check_ms, soon_ms, self._kill_ms if self._hung else soon_ms)

    def _all_healthy(self, now_ms: int) -> bool:
        """Request the stacks of hung children, then kill them; False when a killed child has not exited."""
        for incarnation in self._children.incarnations():
            if incarnation.watchdog.killed_ms is not None:
                self._check_killed(incarnation, now_ms)
            elif self._registry.state(incarnation.key) != ProcessState.STOPPING and self._hangs(incarnation, now_ms):
                log.error("killing %s: its heartbeat has stopped", incarnation.key)
                incarnation.watchdog.killed_ms = now_ms
                self._children.request_stacks(incarnation)
                self._hung.append(incarnation)
                self._kill_ms = now_ms + STACKS_MS
        return not self._kill_failed

    def _kill_hung(self, now_ms: int) -> None:
        for incarnation in self._children.incarnations():
            if any(incarnation is hung for hung in self._hung):
                incarnation.watchdog.killed_ms = now_ms
                self._children.kill(incarnation)
        self._hung.clear()

    def _hangs(self, incarnation: Incarnation, now_ms: int) -> bool:
        if not incarnation.watchdog.is_silent(self._blocks[incarnation.key][BUSY_NS], now_ms):
            return False
        assert incarnation.process.pid is not None, "a started process has a pid"
        seen = activity(incarnation.process.pid)
        # None: the process has exited; its pidfd reports the exit.
        return seen is not None and incarnation.watchdog.is_hung(
            now_ms,
            cpu_ticks=seen.cpu_ticks,
            is_runnable=seen.is_active,
            may_work_longer=not incarnation.is_ready,
        )

    def _check_killed(self, incarnation: Incarnation, now_ms: int) -> None:
        if incarnation.watchdog.outlives_kill(now_ms) and not self._kill_failed:
            log.critical(
                "killed process %s does not exit: the watchdog of the service manager is no longer notified",
                incarnation.key,
            )
            self._kill_failed = True
