"""When is a DeleteRecords complete? When the log of every replica starts at or after the requested offset.

The low watermark (smallest log start offset of the live replicas) must reach that offset, and is the result. After the
timeout pending partitions get REQUEST_TIMED_OUT with the low watermark of the start; other errors have -1.
"""

from typing import Generic, Protocol

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.waiting.delayed_partitions import DelayedPartitions, PendingPartition, Request

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
