"""When is a DeleteRecords done? When every replica's log starts at or after the requested offset.

The low watermark (smallest log start offset over the live replicas) has to reach that offset, and is the answer. After
the timeout each partition that still waits is answered with REQUEST_TIMED_OUT and the low watermark of the beginning;
other errors have -1.
"""

from typing import Generic, Protocol

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.waiting.delayed_partitions import DelayedPartitions, PendingPartition, Request

INVALID_LOW_WATERMARK = -1


class DeletionProgress(Protocol):
    """What a delayed DeleteRecords needs to know of a partition."""

    def low_watermark_of(self, slot: int) -> int:
        """Raises KafkaError, which ends the waiting (not the leader any more …)."""


class DeleteRecordsPartition(PendingPartition):
    """One partition of the request and its answer so far."""

    __slots__ = ("low_watermark",)

    def __init__(self, slot: int, required_offset: int, error_code: ErrorCode = ErrorCode.NONE) -> None:
        super().__init__(slot, required_offset, error_code)
        self.low_watermark = INVALID_LOW_WATERMARK


class DelayedDeleteRecords(DelayedPartitions[DeleteRecordsPartition, DeletionProgress, Request], Generic[Request]):
    """A partition is done when its low watermark has reached the requested offset."""

    __slots__ = ()

    def answer_of(self, partition: DeleteRecordsPartition, view: DeletionProgress) -> ErrorCode | None:
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
