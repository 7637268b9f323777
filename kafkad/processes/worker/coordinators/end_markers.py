"""The ends of transactions in the partitions of this worker: written for a coordinator, answered when replicated.

A marker that is asked for twice is written twice: it ends nothing the second time. One in a partition of
`__consumer_offsets` decides offsets, so its group coordinator hears of it at once.
"""

import time
from collections.abc import Callable

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.coordinated import append_end_marker
from kafkad.core.ports import NoSpaceLeft
from kafkad.processes.worker.failed_partitions import FAILURES, Failure, say_no_room
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.coordinator_messages import MarkersOrdered, MarkersWritten

Answer = Callable[[MarkersWritten], None]
Ended = Callable[[OwnedPartition, int, bool, int], None]
"""(partition, producer id, whether it commits, offset of the marker)."""


class _Waiting:
    """An order whose markers are in the logs, and not everywhere yet."""

    __slots__ = ("answer", "marker_id", "required", "results")

    def __init__(self, marker_id: int, answer: Answer) -> None:
        self.marker_id = marker_id
        self.answer = answer
        self.results: list[int] = []
        self.required: dict[int, tuple[OwnedPartition, int]] = {}
        """Result number → the partition, and the offset that its high watermark has to reach."""


class EndMarkers:
    """`touched` notes that a log moved, `failed` takes one offline, `ended` tells a group coordinator."""

    def __init__(
        self,
        by_slot: dict[int, OwnedPartition],
        *,
        touched: Callable[[OwnedPartition], None],
        failed: Callable[[OwnedPartition, Failure], None],
        ended: Ended,
    ) -> None:
        self._by_slot = by_slot
        self._touched = touched
        self._failed = failed
        self._ended = ended
        self._waiting: list[_Waiting] = []

    def write(self, order: MarkersOrdered, answer: Answer) -> None:
        """One marker in each partition; `answer` comes when the pass has published them, or later."""
        waiting = _Waiting(order.marker_id, answer)
        for slot, tag in order.partitions:
            owned = self._by_slot.get(slot)
            if owned is None or owned.tag != tag:
                waiting.results.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            try:
                end_offset = self._write_one(owned, order)
            except KafkaError as error:
                waiting.results.append(error.code)
                continue
            waiting.required[len(waiting.results)] = (owned, end_offset)
            waiting.results.append(ErrorCode.NONE)
        self._waiting.append(waiting)

    def _write_one(self, owned: OwnedPartition, order: MarkersOrdered) -> int:
        partition_log = owned.log
        if partition_log is None or not owned.is_online:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            info = append_end_marker(
                partition_log,
                producer_id=order.producer_id,
                producer_epoch=order.producer_epoch,
                coordinator_epoch=order.coordinator_epoch,
                commit=order.is_commit,
                transaction_version=order.transaction_version,
                leader_epoch=owned.leader_epoch,
                now_ms=time.time_ns() // 1_000_000,
            )
        except NoSpaceLeft as error:
            say_no_room(owned, "a transaction's end can't be written", error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except FAILURES as error:
            self._failed(owned, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        if not owned.is_dirty:
            self._touched(owned)
        self._ended(owned, order.producer_id, order.is_commit, info.base_offset)
        return info.last_offset + 1

    def answer_written(self) -> None:
        """After publishing: tell whose markers are replicated, or can't be any more."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for row in waiting:
            if self._is_done(row):
                row.answer(MarkersWritten(row.marker_id, row.results))
            else:
                self._waiting.append(row)

    def _is_done(self, row: _Waiting) -> bool:
        for number, (owned, end_offset) in list(row.required.items()):
            if owned.log is None or not owned.is_online:
                row.results[number] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif owned.log.high_watermark.offset < end_offset:
                continue
            del row.required[number]
        return not row.required
