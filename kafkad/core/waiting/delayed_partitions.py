"""When is a request for several partitions complete that waits for replicas: a Produce with acks=all, a DeleteRecords?

Each partition without a result is checked when it changes. After the timeout partitions without a result get
REQUEST_TIMED_OUT; the others keep their results.

A Produce waits until the high watermark of every partition has reached the end of its batch, or until an error. A
DeleteRecords waits until the log of every replica starts at or after the requested offset: the low watermark (smallest
log start offset of the live replicas) must reach that offset, and is the result. After the timeout its pending
partitions have the low watermark of the start; other errors have -1.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.waiting.purgatory import DelayedOperation

Progress = TypeVar("Progress", contravariant=True)
Request = TypeVar("Request")


class PendingPartition:
    """One partition of the request. Mutable and slotted: one is made for each batch of a Produce."""

    __slots__ = ("error_code", "is_pending", "required_offset", "slot")

    def __init__(self, slot: int, required_offset: int, error_code: ErrorCode = ErrorCode.NONE) -> None:
        self.slot = slot
        self.required_offset = required_offset
        # A failed append has its result; a successful one times out unless it is replicated in time.
        self.is_pending = error_code == ErrorCode.NONE
        self.error_code = ErrorCode.REQUEST_TIMED_OUT if self.is_pending else error_code


Row = TypeVar("Row", bound=PendingPartition)


class DelayedPartitions(DelayedOperation[int, Progress], Generic[Row, Progress, Request]):
    """Watches the slots of its partitions; `request` is the owner's data for the reply."""

    __slots__ = ("_pending", "partitions", "request")

    def __init__(self, *, request: Request, deadline_ms: int, partitions: Sequence[Row]) -> None:
        pending = [partition for partition in partitions if partition.is_pending]
        super().__init__(keys=[partition.slot for partition in pending], deadline_ms=deadline_ms)
        self.request = request
        self.partitions = partitions
        self._pending = len(pending)

    def try_complete(self, view: Progress) -> bool:
        return self._check(self.partitions, view)

    def try_complete_key(self, key: int, view: Progress) -> bool:
        return self._check([partition for partition in self.partitions if partition.slot == key], view)

    def _check(self, partitions: Sequence[Row], view: Progress) -> bool:
        for partition in partitions:
            if partition.is_pending and (code := self.result_of(partition, view)) is not None:
                partition.error_code = code
                partition.is_pending = False
                self._pending -= 1
        return self._pending == 0

    @abstractmethod
    def result_of(self, partition: Row, view: Progress) -> ErrorCode | None:
        """None: pending; NONE: done; any other code: an error that waiting does not change."""


class ProduceProgress(Protocol):
    """The state of partitions for a delayed produce, from the worker that owns them."""

    def replication_of(self, slot: int, required_offset: int) -> ErrorCode | None:
        """None: pending; NONE: replicated; any other code: an error that waiting does not change."""


def replication_result(
    *, high_watermark: int, required_offset: int, in_sync: int, min_in_sync: int
) -> ErrorCode | None:
    """The result of `replication_of` on the leader: replicated, with enough in-sync replicas?"""
    if high_watermark < required_offset:
        return None
    return ErrorCode.NONE if in_sync >= min_in_sync else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class DelayedProduce(DelayedPartitions[PendingPartition, ProduceProgress, Request], Generic[Request]):
    """A partition is complete when its high watermark has reached the end of its batch."""

    __slots__ = ()

    def result_of(self, partition: PendingPartition, view: ProduceProgress) -> ErrorCode | None:
        return view.replication_of(partition.slot, partition.required_offset)


INVALID_LOW_WATERMARK = -1


class DeletionProgress(Protocol):
    """The state of partitions for a delayed DeleteRecords."""

    def low_watermark_of(self, slot: int) -> int:
        """Raises `KafkaError`, which ends the wait (for example NOT_LEADER_OR_FOLLOWER)."""


class DeleteRecordsPartition(PendingPartition):
    """One partition of the request and its result so far."""

    __slots__ = ("low_watermark",)

    def __init__(self, slot: int, required_offset: int, error_code: ErrorCode = ErrorCode.NONE) -> None:
        super().__init__(slot, required_offset, error_code)
        self.low_watermark = INVALID_LOW_WATERMARK


class DelayedDeleteRecords(DelayedPartitions[DeleteRecordsPartition, DeletionProgress, Request], Generic[Request]):
    """A partition is complete when its low watermark has reached the requested offset."""

    __slots__ = ()

    def result_of(self, partition: DeleteRecordsPartition, view: DeletionProgress) -> ErrorCode | None:
        try:
            low_watermark = view.low_watermark_of(partition.slot)
        except KafkaError as error:
            partition.low_watermark = INVALID_LOW_WATERMARK
            return error.code
        if low_watermark < partition.required_offset:
            if partition.low_watermark == INVALID_LOW_WATERMARK:
                partition.low_watermark = low_watermark
            return None
        partition.low_watermark = low_watermark
        return ErrorCode.NONE
