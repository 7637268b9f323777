"""The partitions of a worker that this broker leads and that have followers.

Fetches of followers advance the high watermark and expand the ISR; replicas that lag for too long are removed from the
ISR. A change of the ISR is requested from the controller process, and applies with its response or with newer metadata.
A partition with one replica has no `led`.
"""

from heapq import heappop, heappush

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.controller.image import Partition
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.metrics.catalogue import FAILED_ISR_UPDATES, ISR_EXPANDS, ISR_SHRINKS
from kafkad.core.partition_lines import PartitionLines
from kafkad.core.replication.leading.led_partition import (
    CommittedPartitionState,
    FollowerProgress,
    LedPartition,
    add_isr_change,
)
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.processes.controller_messages import IsrChangeDone, IsrChangeRequest
from kafkad.wire.processes.follower_progress import FollowerFetched, unpack_followers_fetched


class Leading:
    """`partitions` are those of the worker, with the present metadata."""

    def __init__(
        self,
        partitions: Partitions,
        outbox: Outbox,
        *,
        max_lag_ms: int,
        lines: PartitionLines,
        block: CounterBlock,
    ) -> None:
        self._partitions = partitions
        self._by_slot = partitions.by_slot
        self._broker_id = partitions.broker_id
        self._outbox = outbox
        self._max_lag_ms = max_lag_ms
        self._lines = lines
        self._block = block
        self._checks: list[tuple[int, int]] = []
        """A heap of (due time, slot): when to check whether a follower lags for too long."""
        self._due_ms: dict[int, int] = {}
        """The due time by slot; other entries of the heap are outdated."""

    @property
    def next_deadline_ms(self) -> int | None:
        return self._checks[0][0] if self._checks else None

    # Roles and states.

    def update(self, owned: OwnedPartition) -> None:
        """The log is loaded, or the metadata has a new state of the partition."""
        row, log = owned.row, owned.log
        if row is None or log is None or not owned.leads or len(row.replicas) == 1:
            owned.led = None
            return
        state, now_ms = _state_of(row), monotonic_ms()
        led = owned.led
        if led is None or led.state.leader_epoch != state.leader_epoch:
            owned.led = LedPartition(
                self._broker_id, state, log_end=log.log_end_offset, now_ms=now_ms, max_lag_ms=self._max_lag_ms
            )
        else:
            before, requested_isr = led.state.isr, led.requested_isr
            if led.update(state, now_ms) and state.isr == requested_isr:
                self._isr_changed(owned, led, log, before)
        pending, owned.pending_progress = owned.pending_progress, None
        for fetched in pending.values() if pending is not None else ():
            self._progressed(owned, log, fetched)
        self._check(owned, now_ms)

    def reconfigured(self) -> None:
        """`min.insync.replicas` may have changed, on which high watermarks and slots depend."""
        for owned in self._by_slot.values():
            if owned.led is not None:
                self._outbox.touched(owned)

    def check_all(self) -> None:
        """Brokers were registered or removed: other replicas may join the ISR now."""
        now_ms = monotonic_ms()
        for owned in self._by_slot.values():
            if owned.led is not None:
                self._check(owned, now_ms)

    # Progress.

    def handle(self, frame: bytes) -> None:
        """A FOLLOWER_FETCHED frame. Progress in other logs or leader epochs is dropped.

        Progress of a log that is not loaded yet is kept: it is sent only once to a worker that replaces another.
        """
        for row in unpack_followers_fetched(frame):
            owned = self._by_slot.get(row.slot)
            if owned is None:
                continue
            if owned.log is None:
                owned.pending_progress = {**(owned.pending_progress or {}), row.replica_id: row}
            else:
                self._progressed(owned, owned.log, row)

    def _progressed(self, owned: OwnedPartition, log: PartitionLog, row: FollowerFetched) -> None:
        led = owned.led
        if led is None or row.generation < owned.generation_base:
            return
        before = led.low_watermark(log.log_start_offset, self._partitions.image.brokers)
        if led.fetched(FollowerProgress(*row[2:]), log.log_end_offset):
            after = led.low_watermark(log.log_start_offset, self._partitions.image.brokers)
            self._check(owned, monotonic_ms(), has_progress=before != after)

    def low_watermark_of(self, slot: int) -> int:
        """The smallest log start offset of all live replicas. Raises KafkaError."""
        owned = self._by_slot.get(slot)
        if owned is None or owned.log is None or not owned.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        start = owned.log.log_start_offset
        return start if owned.led is None else owned.led.low_watermark(start, self._partitions.image.brokers)

    def advance(self, owned: OwnedPartition) -> bool:
        """Before the slot is published: advance the high watermark to the smallest offset of the in-sync replicas.

        Returns whether a check of the followers was scheduled.
        """
        led, log = owned.led, owned.log
        if led is None or log is None or not owned.leads:
            return False
        now_ms = monotonic_ms()
        led.appended(log.log_end_offset, now_ms)
        committed = self._committed(owned, led, log, now_ms)
        if committed >= log.high_watermark.offset:
            log.advance_high_watermark(committed)
        return self._schedule(owned, led, log, now_ms)

    def _committed(self, owned: OwnedPartition, led: LedPartition, log: PartitionLog, now_ms: int) -> int:
        end = led.high_watermark(log.log_end_offset, owned.min_in_sync(log), now_ms, self._partitions.image.brokers)
        return min(end, log.completed_end)

    def _check(self, owned: OwnedPartition, now_ms: int, *, has_progress: bool = False) -> None:
        """Request a change of the ISR if one is due, and publish if more is committed."""
        led, log = owned.led, owned.log
        if led is None or log is None or not owned.leads:
            return
        if (
            led.begin_isr_change(log.log_end_offset, log.high_watermark.offset, now_ms, self._partitions.image.brokers)
            is not None
        ):
            self._send_isr_change(owned, led)
        owned.in_sync = len(led.state.isr)
        if has_progress or self._committed(owned, led, log, now_ms) > log.high_watermark.offset:
            self._outbox.touched(owned)
            return
        self._schedule(owned, led, log, now_ms)

    # Time.

    def _schedule(self, owned: OwnedPartition, led: LedPartition, log: PartitionLog, now_ms: int) -> bool:
        """Returns whether there is a new check."""
        due_ms = led.next_check_ms(log.log_end_offset, now_ms)
        scheduled_ms = self._due_ms.get(owned.slot)
        if due_ms is None or (scheduled_ms is not None and scheduled_ms <= due_ms):
            return False
        self._due_ms[owned.slot] = due_ms
        heappush(self._checks, (due_ms, owned.slot))
        return True

    def tick(self, now_ms: int) -> None:
        """Check the partitions whose followers may lag for too long by now."""
        due = []
        while self._checks and self._checks[0][0] <= now_ms:
            due_ms, slot = heappop(self._checks)
            if self._due_ms.get(slot) == due_ms:
                del self._due_ms[slot]
                due.append(slot)
        # A check may make the next one due at once, which waits for the next pass.
        for slot in due:
            owned = self._by_slot.get(slot)
            if owned is not None:
                self._check(owned, now_ms)

    # Changes of the ISR.

    def _send_isr_change(self, owned: OwnedPartition, led: LedPartition) -> None:
        assert led.requested_isr is not None, "a change of the ISR is under way"
        epochs = led.state.leader_epoch, led.state.partition_epoch
        isr = list(led.requested_isr), list(led.requested_epochs)
        self._outbox.notify_controller(
            IsrChangeRequest(owned.slot, owned.topic_id, owned.name.partition, *epochs, *isr)
        )

    def repeat_requests(self) -> None:
        """The controller process was replaced: send pending requests again."""
        for owned in self._by_slot.values():
            if owned.led is not None and owned.led.requested_isr is not None:
                self._send_isr_change(owned, owned.led)

    def isr_change_completed(self, message: IsrChangeDone) -> None:
        owned = self._by_slot.get(message.slot)
        if owned is None or owned.led is None or owned.topic_id != message.topic_id:
            return
        now_ms = monotonic_ms()
        if message.code == ErrorCode.NONE and message.leader != self._broker_id:
            # The metadata will have the new leader.
            return
        state = CommittedPartitionState(message.leader_epoch, message.partition_epoch, (), tuple(message.isr))
        led, before = owned.led, owned.led.state.isr
        if led.isr_change_completed(message.code, state, now_ms) and owned.log is not None:
            self._isr_changed(owned, led, owned.log, before)
        self._block[FAILED_ISR_UPDATES] += message.code != ErrorCode.NONE
        self._check(owned, now_ms)

    def _isr_changed(
        self, owned: OwnedPartition, led: LedPartition, log: PartitionLog, before: tuple[int, ...]
    ) -> None:
        """A requested change was confirmed, by the response or by the metadata."""
        isr = led.state.isr
        add_isr_change(self._lines, owned.name, before, led, log.log_end_offset)
        self._block[ISR_EXPANDS] += len(isr) > len(before)
        self._block[ISR_SHRINKS] += len(isr) < len(before)


def _state_of(row: Partition) -> CommittedPartitionState:
    return CommittedPartitionState(row.leader_epoch, row.partition_epoch, row.replicas, row.isr)
