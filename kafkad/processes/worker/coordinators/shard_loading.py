"""Loads the state of shards: reads their logs in steps between loop passes, one shard after the other.

A shard whose log cannot be read is abandoned, and unavailable until the broker is restarted.
"""

import logging
import time
from collections import deque
from typing import Any

from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.core.coordinator.runtime import Runtime
from kafkad.core.coordinator.shard import Moment
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.records.record import MalformedRecords
from kafkad.core.ports import StorageFailed
from kafkad.processes.worker.coordinators.coordinator_log import CoordinatorPartition

log = logging.getLogger(__name__)

UNREADABLE = (StorageFailed, FileNotFoundError, CorruptBatch, MalformedRecords, ValueError)
"""The exceptions of a corrupt log, or of corrupt records of a coordinator."""
_WORTH_A_LINE = 1000
"""To load fewer records is not logged."""


class Coordinator:
    """One shard, loading or active."""

    __slots__ = ("began_ns", "owned", "partition", "runtime")

    def __init__(self, partition: CoordinatorPartition, runtime: Runtime[Any]) -> None:
        self.owned = partition.owned
        self.partition = partition
        self.runtime = runtime
        self.began_ns = time.monotonic_ns()


class ShardLoading:
    """The shards that are not loaded yet, in the order of their logs."""

    def __init__(self) -> None:
        self._waiting: deque[Coordinator] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, coordinator: Coordinator) -> None:
        self._waiting.append(coordinator)

    def discard(self, coordinator: Coordinator) -> None:
        if coordinator in self._waiting:
            self._waiting.remove(coordinator)

    def load(self, budget_s: float) -> list[tuple[Coordinator, Exception]]:
        """Load for about `budget_s`. Returns the abandoned shards, with the reason."""
        abandoned: list[tuple[Coordinator, Exception]] = []
        until = time.monotonic() + budget_s
        while self._waiting and time.monotonic() < until:
            coordinator = self._waiting[0]
            try:
                is_done = coordinator.runtime.load_step(moment_now())
            except UNREADABLE as error:
                self._waiting.popleft()
                log.error(
                    "%s: cannot load its coordinator, its groups or transactions are unavailable: %s",
                    coordinator.owned.name,
                    error,
                )
                abandoned.append((coordinator, error))
                continue
            if is_done:
                self._waiting.popleft()
                _tell_loaded(coordinator)
        return abandoned


def _tell_loaded(coordinator: Coordinator) -> None:
    records = coordinator.runtime.replayed
    if records >= _WORTH_A_LINE:
        elapsed_s = (time.monotonic_ns() - coordinator.began_ns) / 1e9
        log.info("%s: its coordinator loaded %d records in %.1f s", coordinator.owned.name, records, elapsed_s)


def moment_now() -> Moment:
    return Moment(monotonic_ms(), wall_clock_ms())
