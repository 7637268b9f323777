"""The logs that workers have described, until policies have planned their cleanup.

One log after the other, for some milliseconds in each pass.
"""

import logging
from collections import deque
from collections.abc import Sequence

from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig
from kafkad.processes.cleaner.compactor import Compactor
from kafkad.processes.cleaner.log_states import LogKey
from kafkad.processes.cleaner.planning import CheckedLog, PlannedRewrite, PlannedTransfer, Planner
from kafkad.processes.cleaner.segment_transfers import SegmentTransfers
from kafkad.processes.cleaner.unfinished_work import UnfinishedWork, Work
from kafkad.processes.runtime.peers import Sender
from kafkad.wire.processes.descriptors import SegmentsOf, pack_control

log = logging.getLogger(__name__)

STEP_MS = 50
_QUARANTINED = "cannot clean %s-%d, retrying in %d s or when its configuration changes: %s"


class DescribedLogs:
    """In the order of their descriptions."""

    def __init__(
        self,
        planner: Planner,
        compactor: Compactor,
        segment_transfers: SegmentTransfers,
        unfinished: UnfinishedWork,
        peers: Sender,
    ) -> None:
        self._planner = planner
        self._compactor = compactor
        self._transfers = segment_transfers
        self._unfinished = unfinished
        self._peers = peers
        self._waiting: deque[tuple[ProcessKey, SegmentsOf]] = deque()
        self._quarantined: set[LogKey] = set()
        """Logs on which cleaners have died."""

    def __bool__(self) -> bool:
        """Whether logs are pending."""
        return bool(self._waiting)

    def add(self, worker: ProcessKey, logs: Sequence[SegmentsOf]) -> None:
        self._waiting.extend((worker, described) for described in logs)

    def tick(self, config: BrokerConfig) -> None:
        """Plan for at least one log."""
        end_ms = monotonic_ms() + STEP_MS
        while self._waiting:
            worker, described = self._waiting.popleft()
            if not self._is_quarantined(described.slot):
                self._unfinished.begin(described.slot, Work.PLANNING)
                self._plan(worker, described, config)
                self._unfinished.end(described.slot, Work.PLANNING)
            if monotonic_ms() >= end_ms:
                return

    def _plan(self, worker: ProcessKey, described: SegmentsOf, config: BrokerConfig) -> None:
        for order in self._planner.plan(described, config, wall_clock_ms()):
            if isinstance(order, PlannedRewrite):
                self._compactor.plan(order)
            elif isinstance(order, PlannedTransfer):
                self._transfers.begin(order)
            elif isinstance(order, CheckedLog):
                key = LogKey(order.topic.id, order.partition.index, order.partition.log_dir)
                self._compactor.states.checked(key, order.cleanable)
            else:
                self._peers.send(worker, pack_control(order))

    def _is_quarantined(self, slot: int) -> bool:
        """Whether cleaners have died while they processed this log, and no retry is due."""
        requested = self._planner.requested(slot)
        if requested is None:
            return False
        topic, partition = requested
        key = LogKey(topic.id, partition.index, partition.log_dir)
        states, now_ms = self._compactor.states, monotonic_ms()
        deaths = self._unfinished.take_deaths(slot)
        if deaths:
            reason = f"cleaner processes died {deaths} times while they processed it"
            # Each further death doubles the pause.
            pauses_ms = [states.failed(key, reason, now_ms) for _ in range(deaths - 1)]
            self._quarantined.add(key)
            log.error(_QUARANTINED, topic.name, partition.index, pauses_ms[-1] // 1000, reason)
        return key in self._quarantined and states.is_quarantined(key, now_ms)
