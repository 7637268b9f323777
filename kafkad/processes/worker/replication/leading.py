"""The partitions of a worker that this broker leads and that have replicas on others.

Followers' fetches move the high watermark and bring replicas into the ISR; time takes those out that are behind. A
change of the ISR goes to the controller process, and is in force when its answer, or newer metadata, says so. A
partition with one replica has no `led`, and costs nothing here.
"""

from collections.abc import Callable, Collection
from heapq import heappop, heappush

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.controller.image import Partition
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.metrics.catalogue import FAILED_ISR_UPDATES, ISR_EXPANDS, ISR_SHRINKS
from kafkad.core.partition_lines import PartitionLines
from kafkad.core.replication.leading.isr_lines import add_isr_change
from kafkad.core.replication.leading.led_partition import CommittedPartitionState, FollowerProgress, LedPartition
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.controller_messages import ControllerMessage, IsrChangeDone, IsrChangeRequest
from kafkad.wire.processes.follower_progress import FollowerFetched, unpack_followers_fetched


class Leading:
    """`live` are the brokers that are registered; `touched` notes that a partition has to be published anew."""

    def __init__(
        self,
        by_slot: dict[int, OwnedPartition],
        *,
        broker_id: int,
        max_lag_ms: int,
        live: Callable[[], Collection[int]],
        touched: Callable[[OwnedPartition], None],
        tell: Callable[[ControllerMessage], None],
        lines: PartitionLines,
        block: CounterBlock,
    ) -> None:
        self._by_slot = by_slot
        self._broker_id = broker_id
        self._max_lag_ms = max_lag_ms
        self._live = live
        self._touched = touched
        self._tell = tell
        self._lines = lines
        self._block = block
        self._looks: list[tuple[int, int]] = []
        """A heap of (when, slot): when to look whether a follower is behind for too long."""
        self._due_ms: dict[int, int] = {}
        """The earliest of these by slot; others are outdated."""

    @property
    def next_deadline_ms(self) -> int | None:
        return self._looks[0][0] if self._looks else None

    # Roles and states.

    def take(self, owned: OwnedPartition) -> None:
        """The log is loaded, or the metadata has another state of the partition."""
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
            before, wanted = led.state.isr, led.requested_isr
            if led.update(state, now_ms) and state.isr == wanted:
                self._isr_changed(owned, led, log, before)
        early, owned.early_progress = owned.early_progress, None
        for fetched in early.values() if early is not None else ():
            self._progressed(owned, log, fetched)
        self._look(owned, now_ms)

    def reconfigured(self) -> None:
        """What is committed, and what the slots say, depends on `min.insync.replicas`."""
        for owned in self._by_slot.values():
            if owned.led is not None and not owned.is_dirty:
                self._touched(owned)

    def look_at_all(self) -> None:
        """Brokers have come or gone: other replicas may join the ISR now."""
        now_ms = monotonic_ms()
        for owned in self._by_slot.values():
            if owned.led is not None:
                self._look(owned, now_ms)

    # Progress.

    def handle(self, frame: bytes) -> None:
        """A FOLLOWER_FETCHED frame. What is not about this log in this leader epoch is dropped.

        What comes before the log is loaded waits for that: it is said once to a worker that replaces another.
        """
        for row in unpack_followers_fetched(frame):
            owned = self._by_slot.get(row.slot)
            if owned is None:
                continue
            if owned.log is None:
                owned.early_progress = {**(owned.early_progress or {}), row.replica_id: row}
            else:
                self._progressed(owned, owned.log, row)

    def _progressed(self, owned: OwnedPartition, log: PartitionLog, row: FollowerFetched) -> None:
        led = owned.led
        if led is None or row.generation < owned.generation_base:
            return
        before = led.low_watermark(log.log_start_offset, self._live())
        if led.fetched(FollowerProgress(*row[2:]), log.log_end_offset):
            after = led.low_watermark(log.log_start_offset, self._live())
            self._look(owned, monotonic_ms(), has_news=before != after)

    def low_watermark_of(self, slot: int) -> int:
        """The smallest log start of all replicas that live; with one replica, its own. Raises KafkaError."""
        owned = self._by_slot.get(slot)
        if owned is None or owned.log is None or not owned.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        start = owned.log.log_start_offset
        return start if owned.led is None else owned.led.low_watermark(start, self._live())

    def advance(self, owned: OwnedPartition) -> None:
        """Before the slot is published: the high watermark is where the in-sync replicas are."""
        led, log = owned.led, owned.log
        if led is None or log is None or not owned.leads:
            return
        now_ms = monotonic_ms()
        led.appended(log.log_end_offset, now_ms)
        committed = self._committed(owned, led, log, now_ms)
        if committed >= log.high_watermark.offset:
            log.advance_high_watermark(committed)
        self._schedule(owned, led, log, now_ms)

    def _committed(self, owned: OwnedPartition, led: LedPartition, log: PartitionLog, now_ms: int) -> int:
        end = led.high_watermark(log.log_end_offset, owned.min_in_sync(log), now_ms, self._live())
        return min(end, log.completed_end)

    def _look(self, owned: OwnedPartition, now_ms: int, *, has_news: bool = False) -> None:
        """Ask for a change of the ISR if one is due, and publish if more is committed."""
        led, log = owned.led, owned.log
        if led is None or log is None or not owned.leads:
            return
        if led.begin_isr_change(log.log_end_offset, log.high_watermark.offset, now_ms, self._live()) is not None:
            self._ask(owned, led)
        owned.in_sync = len(led.state.isr)
        if has_news or self._committed(owned, led, log, now_ms) > log.high_watermark.offset:
            if not owned.is_dirty:
                self._touched(owned)
            return
        self._schedule(owned, led, log, now_ms)

    # Time.

    def _schedule(self, owned: OwnedPartition, led: LedPartition, log: PartitionLog, now_ms: int) -> None:
        due_ms = led.next_check_ms(log.log_end_offset, now_ms)
        known_ms = self._due_ms.get(owned.slot)
        if due_ms is not None and (known_ms is None or due_ms < known_ms):
            self._due_ms[owned.slot] = due_ms
            heappush(self._looks, (due_ms, owned.slot))

    def tick(self, now_ms: int) -> None:
        """Look at the partitions whose followers may be behind for too long by now."""
        due = []
        while self._looks and self._looks[0][0] <= now_ms:
            due_ms, slot = heappop(self._looks)
            if self._due_ms.get(slot) == due_ms:
                del self._due_ms[slot]
                due.append(slot)
        # A look may make the next one due at once: it waits for the next pass.
        for slot in due:
            owned = self._by_slot.get(slot)
            if owned is not None:
                self._look(owned, now_ms)

    # Changes of the ISR.

    def _ask(self, owned: OwnedPartition, led: LedPartition) -> None:
        assert led.requested_isr is not None, "a change of the ISR is under way"
        epochs = led.state.leader_epoch, led.state.partition_epoch
        isr = list(led.requested_isr), list(led.requested_epochs)
        self._tell(IsrChangeRequest(owned.slot, owned.topic_id, owned.name.partition, *epochs, *isr))

    def ask_again(self) -> None:
        """The controller process was replaced: what it was told is lost."""
        for owned in self._by_slot.values():
            if owned.led is not None and owned.led.requested_isr is not None:
                self._ask(owned, owned.led)

    def answered(self, message: IsrChangeDone) -> None:
        owned = self._by_slot.get(message.slot)
        if owned is None or owned.led is None or owned.topic_id != message.topic_id:
            return
        now_ms = monotonic_ms()
        if message.code == ErrorCode.NONE and message.leader != self._broker_id:
            # The metadata will say who leads.
            return
        state = CommittedPartitionState(message.leader_epoch, message.partition_epoch, (), tuple(message.isr))
        led, before = owned.led, owned.led.state.isr
        if led.isr_change_completed(message.code, state, now_ms) and owned.log is not None:
            self._isr_changed(owned, led, owned.log, before)
        self._block[FAILED_ISR_UPDATES] += message.code != ErrorCode.NONE
        self._look(owned, now_ms)

    def _isr_changed(
        self, owned: OwnedPartition, led: LedPartition, log: PartitionLog, before: tuple[int, ...]
    ) -> None:
        """As this leader asked, whoever said so first."""
        isr = led.state.isr
        add_isr_change(self._lines, owned.name, before, led, log.log_end_offset)
        self._block[ISR_EXPANDS] += len(isr) > len(before)
        self._block[ISR_SHRINKS] += len(isr) < len(before)


def _state_of(row: Partition) -> CommittedPartitionState:
    return CommittedPartitionState(row.leader_epoch, row.partition_epoch, row.replicas, row.isr)
