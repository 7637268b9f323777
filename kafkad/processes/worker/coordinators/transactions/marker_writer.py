"""Writes transaction markers to the partitions of this worker; a request completes when its markers are replicated.

A marker that is sent twice is written twice; the second one has no effect. A marker in a partition of
`__consumer_offsets` commits or drops offsets, so its group coordinator is notified at once. A transaction may have ten
thousand partitions, so transactions take turns, a few milliseconds in each pass.
"""

import time
from collections import deque
from collections.abc import Callable

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.coordinated import append_end_marker
from kafkad.core.ports import NoSpaceLeft
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.outbox import FAILURES, Outbox, log_no_space
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.coordinator_messages import TxnMarkerRequest, TxnMarkerWritten

OnWritten = Callable[[TxnMarkerWritten], None]

AT_A_TIME = 16
"""Markers of one transaction in one turn, which takes a few milliseconds."""


class _Row:
    """A marker with its results, one for each partition so far."""

    __slots__ = ("completed", "marker", "required", "results")

    def __init__(self, marker: TxnMarkerRequest, completed: OnWritten) -> None:
        self.marker = marker
        self.completed = completed
        self.results: list[int] = []
        self.required: dict[int, tuple[OwnedPartition, int, int]] = {}
        """Index of the result → the partition, the offset that its high watermark must reach, and its lost leaderships
        at the append: a marker appended before the last loss may have been truncated.
        """


class TxnMarkerWriter:
    """`coordinator_shards` are notified of the end of transactions with offsets."""

    def __init__(
        self, by_slot: dict[int, OwnedPartition], outbox: Outbox, coordinator_shards: CoordinatorShards
    ) -> None:
        self._by_slot = by_slot
        self._outbox = outbox
        self._coordinator_shards = coordinator_shards
        self._unwritten: deque[_Row] = deque()
        self._waiting: list[_Row] = []
        """Markers that are written, but not replicated everywhere."""

    @property
    def is_busy(self) -> bool:
        return bool(self._unwritten)

    def write(self, marker: TxnMarkerRequest, completed: OnWritten) -> None:
        """Queue one marker for each partition; `completed` is called when they are published and replicated."""
        self._unwritten.append(_Row(marker, completed))

    def write_queued(self, budget_s: float) -> None:
        """Write for about `budget_s` seconds, at least one turn."""
        until_s = time.monotonic() + budget_s
        while self._unwritten:
            row = self._unwritten.popleft()
            done = len(row.results)
            for slot, short_id in row.marker.partitions[done : done + AT_A_TIME]:
                self._try(row, slot, short_id)
            is_written = len(row.results) == len(row.marker.partitions)
            (self._waiting if is_written else self._unwritten).append(row)
            if time.monotonic() >= until_s:
                break

    def _try(self, row: _Row, slot: int, short_id: int) -> None:
        owned = self._by_slot.get(slot)
        if owned is None or owned.short_id != short_id:
            row.results.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        try:
            end_offset = self._write_one(owned, row.marker)
        except KafkaError as error:
            row.results.append(error.code)
            return
        row.required[len(row.results)] = (owned, end_offset, owned.lost_leaderships)
        row.results.append(ErrorCode.NONE)

    def _write_one(self, owned: OwnedPartition, marker: TxnMarkerRequest) -> int:
        partition_log = owned.log
        if partition_log is None or not owned.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            info = append_end_marker(
                partition_log,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                commit=marker.is_commit,
                transaction_version=marker.transaction_version,
                leader_epoch=owned.leader_epoch,
                now_ms=wall_clock_ms(),
            )
        except NoSpaceLeft as no_space:
            log_no_space(owned, "cannot append a transaction marker", no_space)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from no_space
        except FAILURES as failure:
            self._outbox.failed(owned, failure)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from failure
        self._outbox.touched(owned)
        self._coordinator_shards.transaction_ended(owned, marker.producer_id, marker.is_commit, info.base_offset)
        return info.last_offset + 1

    def respond_to_written(self) -> None:
        """After publishing: complete the markers that are replicated, or cannot be any more."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for row in waiting:
            if self._is_done(row):
                row.completed(TxnMarkerWritten(row.marker.marker_id, row.results))
            else:
                self._waiting.append(row)

    def _is_done(self, row: _Row) -> bool:
        for number, (owned, end_offset, lost_leaderships) in list(row.required.items()):
            if owned.log is None or not owned.leads or owned.lost_leaderships != lost_leaderships:
                row.results[number] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif owned.log.high_watermark.offset < end_offset:
                continue
            del row.required[number]
        return not row.required
