"""The periodic work of a worker: expire producers, sync logs with `flush.ms`. Timers run only while necessary."""

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.partition_slot import STATE_ONLINE
from kafkad.processes.worker.outbox import FAILURES, Outbox
from kafkad.processes.worker.owned import OwnedPartition

_FOREVER = 2**63 - 1
_NEVER_MS = 1 << 40


class Periodic:
    """Two timers, each set only while a partition needs it."""

    def __init__(
        self,
        partitions: dict[int, OwnedPartition],
        *,
        now_ms: int,
        expiration_check_ms: int,
        flush_check_ms: int,
        first_flush_ms: int,
        outbox: Outbox,
    ) -> None:
        self._partitions = partitions
        self._expiration_check_ms = expiration_check_ms
        # As in Apache Kafka, after an interval of 0 or less the first check is the only one.
        self._flush_check_ms = flush_check_ms if 0 < flush_check_ms < _NEVER_MS else _NEVER_MS
        self._outbox = outbox
        self._next_expiration_ms = now_ms + expiration_check_ms
        self._next_flush_ms = first_flush_ms
        self._has_producers = False
        self._has_flush_ms = False

    def partition_changed(self, owned: OwnedPartition) -> bool:
        """The partition has changed in this pass: start its timers. Returns whether a timer was started."""
        if owned.log is None:
            return False
        starts_expiration = not self._has_producers and owned.log.producers.may_expire
        starts_flush = not self._has_flush_ms and owned.log.config.flush_ms < _FOREVER
        if starts_expiration:
            self._has_producers = True
        if starts_flush:
            self._has_flush_ms = True
        return starts_expiration or starts_flush

    @property
    def next_deadline_ms(self) -> int | None:
        """When the next timer is due (monotonic milliseconds), if any."""
        due = []
        if self._has_producers:
            due.append(self._next_expiration_ms)
        if self._has_flush_ms:
            due.append(self._next_flush_ms)
        return min(due) if due else None

    def tick(self, now_ms: int) -> None:
        if self._has_producers and now_ms >= self._next_expiration_ms:
            self._next_expiration_ms = now_ms + self._expiration_check_ms
            self._has_producers = self._expire()
        if self._has_flush_ms and now_ms >= self._next_flush_ms:
            self._next_flush_ms = now_ms + self._flush_check_ms
            self._has_flush_ms = self._flush()

    def _expire(self) -> bool:
        wall_ms = wall_clock_ms()
        is_needed = False
        for owned in self._partitions.values():
            if owned.log is not None:
                owned.log.producers.remove_expired(wall_ms)
                is_needed = is_needed or owned.log.producers.may_expire
        return is_needed

    def _flush(self) -> bool:
        wall_ms = wall_clock_ms()
        is_needed = False
        for owned in self._partitions.values():
            partition_log = owned.log
            if partition_log is None or owned.state != STATE_ONLINE or partition_log.config.flush_ms == _FOREVER:
                continue
            is_needed = is_needed or partition_log.recovery_point < partition_log.log_end_offset
            if partition_log.flush_is_due(wall_ms):
                self._request_flush(owned, partition_log, wall_ms)
        return is_needed

    def _request_flush(self, owned: OwnedPartition, partition_log: PartitionLog, wall_ms: int) -> None:
        try:
            partition_log.request_flush(wall_ms)
        except FAILURES as error:
            self._outbox.failed(owned, error)
            return
        # The sync begins when the pass publishes the slot.
        self._outbox.touched(owned)
