"""The followed logs of a worker: what fetchers bring from leaders is appended, truncated where the leader says so.

A fetcher hears of an append when it is in the log, and on disk where `flush.messages` asks for that: it asks for the
next records only then, which acknowledges these. A truncation is announced
in the slot, and made when no reader uses what goes; the fetcher hears of it afterwards.
"""

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import NamedTuple

from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.descriptor_ring import LARGEST_MESSAGE
from kafkad.adapters.shared_memory.process_registry import (
    CONTROLLER,
    GRACE_CHECK_MS,
    GraceMark,
    ProcessKey,
    ProcessRegistry,
)
from kafkad.core.controller.image import NO_LEADER
from kafkad.core.errors import ErrorCode
from kafkad.core.log.effects import UnlinkFiles
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
)
from kafkad.core.replication.following.requests import FollowKind, FollowOrder, FollowResult
from kafkad.core.replication.following.truncation_lines import truncation_event
from kafkad.processes.runtime.turns import STEP_NS
from kafkad.processes.worker.disks.disk_space import DiskSpace
from kafkad.processes.worker.failed_partitions import FAILURES, Failure, log_no_space
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.controller_messages import LogsMoved, pack_message
from kafkad.wire.processes.descriptors import frames_of
from kafkad.wire.processes.follow_descriptors import FOLLOWED, pack_results, unpack_orders

_FOLLOWED = bytes((FOLLOWED,))


class _PendingTruncation:
    """A truncation that waits for the readers of what goes."""

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
    """An answer that waits until everything below `end` is on disk."""

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
        send: Callable[[ProcessKey, bytes], object],
        touched: Callable[[OwnedPartition], None],
        publish: Callable[[OwnedPartition], None],
        truncate_in: Callable[[int, int], None],
        remove_later: Callable[[OwnedPartition, UnlinkFiles], None],
        failed: Callable[[OwnedPartition, Failure | CorruptBatch], None],
        room: DiskSpace,
        lines: PartitionLines,
        block: CounterBlock,
    ) -> None:
        self._by_slot = by_slot
        self._registry = registry
        self._arenas = arenas
        self._send = send
        self._touched = touched
        self._publish = publish
        self._truncate_in = truncate_in
        """Says in a slot that replies from before this generation must not go on."""
        self._remove_later = remove_later
        self._failed = failed
        self._room = room
        self._lines = lines
        self._block = block
        self._orders: deque[tuple[ProcessKey, FollowOrder]] = deque()
        self._early: dict[int, tuple[ProcessKey, FollowOrder]] = {}
        """Questions about logs that are not loaded, or in a leader epoch that this worker has not heard of, by slot."""
        self._truncations: dict[int, _PendingTruncation] = {}
        self._results: dict[ProcessKey, list[FollowResult]] = {}
        self._unsynced: list[_Unsynced] = []
        self._look_ms: int | None = None
        self._has_lowered = False
        """Whether a log was truncated below its recovery point."""

    @property
    def is_busy(self) -> bool:
        return bool(self._orders) or bool(self._results)

    @property
    def next_deadline_ms(self) -> int | None:
        return self._look_ms

    def handle(self, peer: ProcessKey, frame: bytes) -> None:
        """A FOLLOW frame; its records stay in the arena until they are answered."""
        self._orders.extend((peer, order) for order in unpack_orders(frame))

    def fetcher_lost(self, peer: ProcessKey) -> None:
        """It died; its next incarnation asks anew, and has its arena."""
        self._orders = deque(row for row in self._orders if row[0] != peer)
        self._early = {slot: row for slot, row in self._early.items() if row[0] != peer}
        self._results.pop(peer, None)
        self._unsynced = [row for row in self._unsynced if row.peer != peer]
        for pending in [pending for pending in self._truncations.values() if pending.peer == peer]:
            self._forget_truncation(pending)

    def check_again(self, owned: OwnedPartition) -> None:
        """The log is loaded, or has another role or leader epoch: what a leader of before wanted cut stays, and is
        shown again with the role. No reader has lost anything: those of before the truncation read what is there.
        """
        if (pending := self._truncations.get(owned.slot)) and self._is_void(pending):
            self._drop(pending)
        if row := self._early.pop(owned.slot, None):
            self._orders.append(row)

    def tick(self, now_ms: int) -> None:
        """Before the pass publishes: for one step perform what came, then what readers do not hold up any more."""
        until_ns = monotonic_ns() + STEP_NS
        while self._orders:
            peer, order = self._orders.popleft()
            self._take(peer, order)
            if monotonic_ns() >= until_ns:
                break
        if self._look_ms is not None and now_ms >= self._look_ms:
            self._look_at_truncations(now_ms)

    def answer(self) -> None:
        """After publishing."""
        if self._has_lowered:
            self._has_lowered = False
            self._send(CONTROLLER, pack_message(LogsMoved(lowered=True)))
        if self._unsynced:
            self._answer_synced()
        if not self._results:
            return
        results, self._results = self._results, {}
        for peer, rows in results.items():
            for frame in frames_of(_FOLLOWED, pack_results(rows), LARGEST_MESSAGE):
                self._send(peer, frame)

    def _take(self, peer: ProcessKey, order: FollowOrder) -> None:
        owned = self._by_slot.get(order.slot)
        if owned is None or owned.short_id != order.short_id or owned.leader_epoch < order.leader_epoch:
            self._not_yet(peer, order)
        elif owned.role != ROLE_FOLLOWER or owned.leader_epoch != order.leader_epoch:
            self._say(peer, failed_result(order, ErrorCode.FENCED_LEADER_EPOCH))
        elif owned.state == STATE_OFFLINE:
            self._say(peer, failed_result(order, ErrorCode.KAFKA_STORAGE_ERROR))
        elif owned.log is None or not owned.is_online:
            self._not_yet(peer, order)
        elif order.kind == FollowKind.DESCRIBE:
            self._cancel_truncation(owned)
            self._say_when_synced(peer, owned, owned.log, order)
        elif order.kind == FollowKind.APPEND:
            self._append(peer, owned, order)
        else:
            self._begin_truncation(peer, owned, order)

    def _not_yet(self, peer: ProcessKey, order: FollowOrder) -> None:
        """A question waits: an answer would only be asked for again. Anything else is void."""
        if order.kind == FollowKind.DESCRIBE:
            self._early[order.slot] = peer, order
        else:
            self._say(peer, failed_result(order, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _say(self, peer: ProcessKey, result: FollowResult) -> None:
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
                self._remove_later(owned, effect)
        except NoSpaceLeft as no_space:
            log_no_space(owned, "what the leader sent is not appended", no_space)
            self._room.found_full(owned.log_dir, monotonic_ms())
        except FAILURES as failure:
            self._failed(owned, failure)
        if not owned.is_dirty:
            self._touched(owned)
        self._say_when_synced(peer, owned, log, order, error)

    def _say_when_synced(
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
            self._say(peer, result_of(log, order, error))

    def _answer_synced(self) -> None:
        """A log was synced, has failed, or was truncated: then nothing of it is held back."""
        waiting, self._unsynced = self._unsynced, []
        for row in waiting:
            if row.owned.log is not row.log or not row.owned.is_online:
                is_offline = row.owned.state == STATE_OFFLINE
                code = ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
                self._say(row.peer, failed_result(row.order, code))
            elif row.log.completed_end < min(row.end, row.log.log_end_offset):
                self._unsynced.append(row)
            else:
                self._say(row.peer, result_of(row.log, row.order, row.error))

    # Truncation.

    def _begin_truncation(self, peer: ProcessKey, owned: OwnedPartition, order: FollowOrder) -> None:
        log = owned.log
        assert log is not None, "checked by the caller"
        self._cancel_truncation(owned)
        truncation = planned_truncation(log, order)
        pending = _PendingTruncation(peer, owned, order, truncation, ())
        if not truncation.removes_from(log):
            self._perform(pending)
            return
        try:
            end = log.position_of(log.log_start_offset if truncation.is_full else truncation.offset)
        except FAILURES as failure:
            self._failed(owned, failure)
            self._say(peer, failed_result(order, ErrorCode.KAFKA_STORAGE_ERROR))
            return
        # Readers see the end and the high watermark of the log as it will be, in a new generation. Replies that are
        # leaving end here: the file will have other bytes where theirs are.
        log.generation += 1
        self._truncate_in(owned.slot, owned.generation_base + log.generation)
        owned.truncating_to = end
        self._publish(owned)
        pending.marks = self._registry.grace_marks()
        self._truncations[owned.slot] = pending
        self._look_ms = monotonic_ms() + GRACE_CHECK_MS

    def _look_at_truncations(self, now_ms: int) -> None:
        for slot, pending in list(self._truncations.items()):
            if self._is_void(pending):
                self._drop(pending)
            elif self._registry.has_grace_ended(pending.marks):
                del self._truncations[slot]
                self._perform(pending)
        self._look_ms = now_ms + GRACE_CHECK_MS if self._truncations else None

    def _is_void(self, pending: _PendingTruncation) -> bool:
        owned = pending.owned
        is_another = self._by_slot.get(owned.slot) is not owned or owned.leader_epoch != pending.order.leader_epoch
        return is_another or owned.role != ROLE_FOLLOWER or owned.log is None or not owned.is_online

    def _drop(self, pending: _PendingTruncation) -> None:
        self._forget_truncation(pending)
        self._say(pending.peer, failed_result(pending.order, ErrorCode.FENCED_LEADER_EPOCH))

    def _perform(self, pending: _PendingTruncation) -> None:
        owned, order = pending.owned, pending.order
        log = owned.log
        assert log is not None, "checked by the caller"
        owned.truncating_to = None
        recovery_point = log.recovery_point
        leader = NO_LEADER if owned.row is None else owned.row.leader
        said = truncation_event(owned.name, log, pending.truncation, order, leader)
        has_lost = pending.truncation.removes_from(log) and log.log_end_offset > log.log_start_offset
        error: int = ErrorCode.KAFKA_STORAGE_ERROR
        try:
            for effect in truncate(log, pending.truncation, wall_clock_ms()):
                self._remove_later(owned, effect)
            error = ErrorCode.NONE
            if has_lost:
                self._lines.add(*said)
        except NoSpaceLeft as no_space:
            log_no_space(owned, "not truncated", no_space)
        except (*FAILURES, CorruptBatch) as failure:
            self._failed(owned, failure)
        self._has_lowered |= log.recovery_point < recovery_point
        if not owned.is_dirty:
            self._touched(owned)
        self._say(pending.peer, result_of(log, order, error))

    def _cancel_truncation(self, owned: OwnedPartition) -> None:
        if pending := self._truncations.get(owned.slot):
            self._forget_truncation(pending)

    def _forget_truncation(self, pending: _PendingTruncation) -> None:
        """The log stays whole, and is shown so again."""
        owned = pending.owned
        if self._truncations.get(owned.slot) is pending:
            del self._truncations[owned.slot]
        owned.truncating_to = None
        if self._by_slot.get(owned.slot) is owned and owned.log is not None:
            owned.log.generation += 1
            if not owned.is_dirty:
                self._touched(owned)
