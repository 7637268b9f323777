"""Checks the heartbeats of the children from time to time, and reports to the service manager.

A child whose heartbeat stops writes its stacks, is killed, and replaced like any child that ended. The service
manager gets `alive` while that works, and restarts the broker when a killed child does not end or the supervisor
itself hangs.
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

TEXT_MS = 200
"""How often the text of a start or stop is renewed."""
STACKS_MS = 200
"""The time that a hanging child has to write its stacks, which a signal handler does wherever the process is."""
PATIENCE_S = 30
"""By how long each successful check extends a start."""


class Watch:
    """Call `look` at `next_ms`."""

    def __init__(
        self, children: Children, counters: Counters, registry: ProcessRegistry, service: ServiceManager, now_ms: int
    ) -> None:
        self._children = children
        self._registry = registry
        self._service = service
        self._blocks = {key: counters.block(registry.slot(key)) for key in registry.keys}
        self._look_ms = min(CHECK_INTERVAL_MS, service.watchdog_ms // 3) or CHECK_INTERVAL_MS
        self._next_check_ms = now_ms + self._look_ms
        self._told = ""
        self._asked: list[Incarnation] = []
        """Incarnations that hang; they are killed after the time for their stacks."""
        self._kill_ms = now_ms
        self._abandoned = False
        # At once: the first text of a start.
        self.next_ms = now_ms

    def look(self, now_ms: int, *, is_starting: bool, is_stopping: bool, text: str | None) -> None:
        """`text` is the progress of a start or a stop; None if it has not changed."""
        if self._asked and now_ms >= self._kill_ms:
            self._kill_asked(now_ms)
        if now_ms >= self._next_check_ms:
            self._next_check_ms = now_ms + self._look_ms
            if self._all_well(now_ms):
                self._service.alive()
                if is_starting and text is not None:
                    self._told = text
                    self._service.starting_for(PATIENCE_S, text)
        if text is not None and text != self._told:
            self._told = text
            self._service.status(text)
        soon_ms = now_ms + TEXT_MS if is_starting or is_stopping else self._next_check_ms
        self.next_ms = min(self._next_check_ms, soon_ms, self._kill_ms if self._asked else soon_ms)

    def _all_well(self, now_ms: int) -> bool:
        """Ask hanging children for their stacks, then kill them; False when a killed child has not ended."""
        for incarnation in self._children.incarnations():
            if incarnation.watchdog.killed_ms is not None:
                self._expect_end(incarnation, now_ms)
            elif self._registry.state(incarnation.key) != ProcessState.STOPPING and self._hangs(incarnation, now_ms):
                log.error("%s has been silent for too long and is killed", incarnation.key)
                incarnation.watchdog.killed_ms = now_ms
                self._children.ask_for_stacks(incarnation)
                self._asked.append(incarnation)
                self._kill_ms = now_ms + STACKS_MS
        return not self._abandoned

    def _kill_asked(self, now_ms: int) -> None:
        for incarnation in self._children.incarnations():
            if any(incarnation is asked for asked in self._asked):
                incarnation.watchdog.killed_ms = now_ms
                self._children.kill(incarnation)
        self._asked.clear()

    def _hangs(self, incarnation: Incarnation, now_ms: int) -> bool:
        if not incarnation.watchdog.is_silent(self._blocks[incarnation.key][BUSY_NS], now_ms):
            return False
        assert incarnation.process.pid is not None, "a started process has a pid"
        seen = activity(incarnation.process.pid)
        # It has ended; its pidfd is handled elsewhere.
        return seen is not None and incarnation.watchdog.is_hung(
            now_ms,
            cpu_ticks=seen.cpu_ticks,
            is_runnable=seen.is_active,
            may_work_longer=not incarnation.is_ready,
        )

    def _expect_end(self, incarnation: Incarnation, now_ms: int) -> None:
        if incarnation.watchdog.outlives_kill(now_ms) and not self._abandoned:
            log.critical(
                "%s does not end although it was killed: the service manager is not fed any more", incarnation.key
            )
            self._abandoned = True
