"""The followed logs of a worker: appends and truncates them by the orders of fetchers.

A fetcher gets the result of an append when the records are in the log, and on disk with `flush.messages`. Its next
fetch acknowledges them to the leader. A truncation is first published in the slot, and performed when no reader uses
the truncated records.
"""

from collections import deque
from collections.abc import Sequence
from time import monotonic_ns
from typing import NamedTuple

from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.descriptor_ring import LARGEST_MESSAGE
from kafkad.adapters.shared_memory.process_registry import (
    GRACE_CHECK_MS,
    GraceMark,
    ProcessKey,
    ProcessRegistry,
)
from kafkad.core.controller.image import NO_LEADER
from kafkad.core.errors import ErrorCode
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.metrics.catalogue import REPLICATION_BYTES_IN
from kafkad.core.partition_lines import PartitionLines
from kafkad.core.partition_slot import ROLE_FOLLOWER, STATE_OFFLINE
from kafkad.core.ports import NoSpaceLeft
from kafkad.core.replication.following.following_log import (
    Truncation,
    append_fetched,
    begin_with_batch,
    failed_result,
    follow_log_start,
    planned_truncation,
    result_of,
    truncate,
    truncation_event,
)
from kafkad.core.replication.following.requests import FollowKind, FollowOrder, FollowResult
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.runtime.turns import STEP_NS
from kafkad.processes.worker.disks.disk_space import DiskSpace
from kafkad.processes.worker.outbox import FAILURES, Outbox, log_no_space
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.slots import Slots
from kafkad.wire.processes.controller_messages import LogsMoved
from kafkad.wire.processes.descriptors import frames_of
from kafkad.wire.processes.follow_descriptors import FOLLOWED, pack_results, unpack_orders

_FOLLOWED = bytes((FOLLOWED,))


class _PendingTruncation:
    """A truncation that waits for readers of the truncated records."""

    __slots__ = ("marks", "order", "owned", "peer", "truncation")

    def __init__(
        self,
        peer: ProcessKey,
        owned: OwnedPartition,
        order: FollowOrder,
        truncation: Truncation,
        marks: tuple[GraceMark, ...],
    ) -> None:
        self.peer = peer
        self.owned = owned
        self.order = order
        self.truncation = truncation
        self.marks = marks


class _Unsynced(NamedTuple):
    """A result that waits until all records below `end` are on disk."""

    peer: ProcessKey
    order: FollowOrder
    error: int
    owned: OwnedPartition
    log: PartitionLog
    end: int


class Following:
    """The orders of all fetchers for partitions of this worker."""

    def __init__(
        self,
        by_slot: dict[int, OwnedPartition],
        registry: ProcessRegistry,
        arenas: Sequence[memoryview],
        *,
        sender: Sender,
        outbox: Outbox,
        slots: Slots,
        disk_space: DiskSpace,
        lines: PartitionLines,
        block: CounterBlock,
    ) -> None:
        self._by_slot = by_slot
        self._registry = registry
        self._arenas = arenas
        self._sender = sender
        self._outbox = outbox
        self._slots = slots
        self._disk_space = disk_space
        self._lines = lines
        self._block = block
        self._orders: deque[tuple[ProcessKey, FollowOrder]] = deque()
        self._postponed: dict[int, tuple[ProcessKey, FollowOrder]] = {}
        """DESCRIBE orders for logs that are not loaded, or for leader epochs newer than the metadata, by slot."""
        self._truncations: dict[int, _PendingTruncation] = {}
        self._results: dict[ProcessKey, list[FollowResult]] = {}
        self._unsynced: list[_Unsynced] = []
        self._check_ms: int | None = None
        self._has_lowered_recovery_point = False
        """Whether a log was truncated below its recovery point."""

    @property
    def is_busy(self) -> bool:
        return bool(self._orders) or bool(self._results)

    @property
    def next_deadline_ms(self) -> int | None:
        return self._check_ms

    def handle(self, peer: ProcessKey, frame: bytes) -> None:
        """A FOLLOW frame; its records are valid in the arena until their results are sent."""
        self._orders.extend((peer, order) for order in unpack_orders(frame))

    def fetcher_lost(self, peer: ProcessKey) -> None:
        """The fetcher died: drop its orders. Its next incarnation sends new ones, and reuses the arena."""
        self._orders = deque(row for row in self._orders if row[0] != peer)
        self._postponed = {slot: row for slot, row in self._postponed.items() if row[0] != peer}
        self._results.pop(peer, None)
        self._unsynced = [row for row in self._unsynced if row.peer != peer]
        for pending in [pending for pending in self._truncations.values() if pending.peer == peer]:
            self._abandon_truncation(pending)

    def check_again(self, owned: OwnedPartition) -> None:
        """The log is loaded, or has another role or leader epoch: reject the truncation of an earlier leader, and
        perform a postponed order.
        """
        if (pending := self._truncations.get(owned.slot)) and self._is_outdated(pending):
            self._reject_truncation(pending)
        if row := self._postponed.pop(owned.slot, None):
            self._orders.append(row)

    def tick(self, now_ms: int) -> None:
        """Before the pass publishes: perform orders for one step, then truncations without readers."""
        until_ns = monotonic_ns() + STEP_NS
        while self._orders:
            peer, order = self._orders.popleft()
            self._perform_order(peer, order)
            if monotonic_ns() >= until_ns:
                break
        if self._check_ms is not None and now_ms >= self._check_ms:
            self._check_truncations(now_ms)

    def send_results(self) -> None:
        """After publishing."""
        if self._has_lowered_recovery_point:
            self._has_lowered_recovery_point = False
            self._outbox.notify_controller(LogsMoved(lowered=True))
        if self._unsynced:
            self._complete_synced()
        if not self._results:
            return
        results, self._results = self._results, {}
        for peer, rows in results.items():
            for frame in frames_of(_FOLLOWED, pack_results(rows), LARGEST_MESSAGE):
                self._sender.send(peer, frame)

    def _perform_order(self, peer: ProcessKey, order: FollowOrder) -> None:
        owned = self._by_slot.get(order.slot)
        if owned is None or owned.short_id != order.short_id or owned.leader_epoch < order.leader_epoch:
            self._postpone(peer, order)
        elif owned.role != ROLE_FOLLOWER or owned.leader_epoch != order.leader_epoch:
            self._complete(peer, failed_result(order, ErrorCode.FENCED_LEADER_EPOCH))
        elif owned.state == STATE_OFFLINE:
            self._complete(peer, failed_result(order, ErrorCode.KAFKA_STORAGE_ERROR))
        elif owned.log is None or not owned.is_online:
            self._postpone(peer, order)
        elif order.kind == FollowKind.DESCRIBE:
            self._cancel_truncation(owned)
            self._complete_when_synced(peer, owned, owned.log, order)
        elif order.kind == FollowKind.APPEND:
            self._append(peer, owned, order)
        else:
            self._begin_truncation(peer, owned, order)

    def _postpone(self, peer: ProcessKey, order: FollowOrder) -> None:
        """Postpone a DESCRIBE, which the fetcher would only repeat; reject other orders."""
        if order.kind == FollowKind.DESCRIBE:
            self._postponed[order.slot] = peer, order
        else:
            self._complete(peer, failed_result(order, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _complete(self, peer: ProcessKey, result: FollowResult) -> None:
        self._results.setdefault(peer, []).append(result)

    def _append(self, peer: ProcessKey, owned: OwnedPartition, order: FollowOrder) -> None:
        log = owned.log
        assert log is not None, "checked by the caller"
        error: int = ErrorCode.KAFKA_STORAGE_ERROR
        try:
            records = self._arenas[peer.index][order.records_at : order.records_at + order.length]
            now_ms = wall_clock_ms()
            order, replaced = begin_with_batch(log, order, records, now_ms)
            error = append_fetched(log, order, records, now_ms)
            if error == ErrorCode.NONE:
                self._block[REPLICATION_BYTES_IN] += order.length
            for effect in (*replaced, *follow_log_start(log, order)):
                self._outbox.remove_later(owned, effect)
        except NoSpaceLeft as no_space:
            log_no_space(owned, "fetched records not appended", no_space)
            self._disk_space.found_full(owned.log_dir, monotonic_ms())
        except FAILURES as failure:
            self._outbox.failed(owned, failure)
        self._outbox.touched(owned)
        self._complete_when_synced(peer, owned, log, order, error)

    def _complete_when_synced(
        self,
        peer: ProcessKey,
        owned: OwnedPartition,
        log: PartitionLog,
        order: FollowOrder,
        error: int = ErrorCode.NONE,
    ) -> None:
        if log.held_back:
            self._unsynced.append(_Unsynced(peer, order, error, owned, log, log.log_end_offset))
        else:
            self._complete(peer, result_of(log, order, error))

    def _complete_synced(self) -> None:
        """Complete the results of logs that were synced, have failed, or were truncated."""
        waiting, self._unsynced = self._unsynced, []
        for row in waiting:
            if row.owned.log is not row.log or not row.owned.is_online:
                is_offline = row.owned.state == STATE_OFFLINE
                code = ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
                self._complete(row.peer, failed_result(row.order, code))
            elif row.log.completed_end < min(row.end, row.log.log_end_offset):
                self._unsynced.append(row)
            else:
                self._complete(row.peer, result_of(row.log, row.order, row.error))

    # Truncation.

    def _begin_truncation(self, peer: ProcessKey, owned: OwnedPartition, order: FollowOrder) -> None:
        log = owned.log
        assert log is not None, "checked by the caller"
        self._cancel_truncation(owned)
        truncation = planned_truncation(log, order)
        pending = _PendingTruncation(peer, owned, order, truncation, ())
        if not truncation.removes_from(log):
            self._perform_truncation(pending)
            return
        try:
            end = log.position_of(log.log_start_offset if truncation.is_full else truncation.offset)
        except FAILURES as failure:
            self._outbox.failed(owned, failure)
            self._complete(peer, failed_result(order, ErrorCode.KAFKA_STORAGE_ERROR))
            return
        # Publish end and high watermark of the truncated log in a new generation. Running responses end there: the
        # file will have other bytes after it.
        log.generation += 1
        owned.truncating_to = end
        self._slots.publish_truncation(owned)
        pending.marks = self._registry.grace_marks()
        self._truncations[owned.slot] = pending
        self._check_ms = monotonic_ms() + GRACE_CHECK_MS

    def _check_truncations(self, now_ms: int) -> None:
        for slot, pending in list(self._truncations.items()):
            if self._is_outdated(pending):
                self._reject_truncation(pending)
            elif self._registry.has_grace_ended(pending.marks):
                del self._truncations[slot]
                self._perform_truncation(pending)
        self._check_ms = now_ms + GRACE_CHECK_MS if self._truncations else None

    def _is_outdated(self, pending: _PendingTruncation) -> bool:
        owned = pending.owned
        is_replaced = self._by_slot.get(owned.slot) is not owned or owned.leader_epoch != pending.order.leader_epoch
        return is_replaced or owned.role != ROLE_FOLLOWER or owned.log is None or not owned.is_online

    def _reject_truncation(self, pending: _PendingTruncation) -> None:
        self._abandon_truncation(pending)
        self._complete(pending.peer, failed_result(pending.order, ErrorCode.FENCED_LEADER_EPOCH))

    def _perform_truncation(self, pending: _PendingTruncation) -> None:
        owned, order = pending.owned, pending.order
        log = owned.log
        assert log is not None, "checked by the caller"
        owned.truncating_to = None
        recovery_point = log.recovery_point
        leader = NO_LEADER if owned.row is None else owned.row.leader
        event = truncation_event(owned.name, log, pending.truncation, order, leader)
        has_lost = pending.truncation.removes_from(log) and log.log_end_offset > log.log_start_offset
        error: int = ErrorCode.KAFKA_STORAGE_ERROR
        try:
            for effect in truncate(log, pending.truncation, wall_clock_ms()):
                self._outbox.remove_later(owned, effect)
            error = ErrorCode.NONE
            if has_lost:
                self._lines.add(*event)
        except NoSpaceLeft as no_space:
            log_no_space(owned, "log not truncated", no_space)
        except (*FAILURES, CorruptBatch) as failure:
            self._outbox.failed(owned, failure)
        self._has_lowered_recovery_point |= log.recovery_point < recovery_point
        self._outbox.touched(owned)
        self._complete(pending.peer, result_of(log, order, error))

    def _cancel_truncation(self, owned: OwnedPartition) -> None:
        if pending := self._truncations.get(owned.slot):
            self._abandon_truncation(pending)

    def _abandon_truncation(self, pending: _PendingTruncation) -> None:
        """Publish the whole log again."""
        owned = pending.owned
        if self._truncations.get(owned.slot) is pending:
            del self._truncations[owned.slot]
        owned.truncating_to = None
        if self._by_slot.get(owned.slot) is owned and owned.log is not None:
            owned.log.generation += 1
            self._outbox.touched(owned)
