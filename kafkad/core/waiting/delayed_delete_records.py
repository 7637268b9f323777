"""When is a DeleteRecords done? When every replica's log starts at or after the offset asked for.

The low watermark (smallest log start offset over the live replicas) is what has to get there, and is what is
answered. Time out, and each partition that still waits says REQUEST_TIMED_OUT with low watermark -1.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from kafkad.core.errors import ErrorCode
from kafkad.core.waiting.purgatory import DelayedOperation

INVALID_LOW_WATERMARK = -1

Request = TypeVar("Request")


class DeletionProgress(Protocol):
    """What a delayed DeleteRecords may ask about a partition."""

    def low_watermark_of(self, slot: int) -> int | ErrorCode:
        """The low watermark, or the code that ends the waiting (not the leader any more …).

        An `ErrorCode` is an int too: the answer is an error exactly when it's an instance of `ErrorCode`.
        """


class DeleteRecordsPartition:
    """One partition of the request and its answer so far."""

    __slots__ = ("error_code", "is_pending", "low_watermark", "required_offset", "slot")

    def __init__(self, slot: int, required_offset: int, error_code: ErrorCode = ErrorCode.NONE) -> None:
        self.slot = slot
        self.required_offset = required_offset
        self.low_watermark = INVALID_LOW_WATERMARK
        self.is_pending = error_code == ErrorCode.NONE
        self.error_code = ErrorCode.REQUEST_TIMED_OUT if self.is_pending else error_code


class DelayedDeleteRecords(DelayedOperation[int, DeletionProgress], Generic[Request]):
    """Watches its partitions' slots; `request` is whatever the owner needs to send the answer."""

    __slots__ = ("_pending", "partitions", "request")

    def __init__(
        self, *, request: Request, deadline_ms: int, partitions: Sequence[DeleteRecordsPartition]
    ) -> None:
        waiting = [partition for partition in partitions if partition.is_pending]
        super().__init__(keys=[partition.slot for partition in waiting], deadline_ms=deadline_ms)
        self.request = request
        self.partitions = partitions
        self._pending = len(waiting)

    def try_complete(self, view: DeletionProgress) -> bool:
        for partition in self.partitions:
            if partition.is_pending:
                self._look(partition, view)
        return self._pending == 0

    def try_complete_key(self, key: int, view: DeletionProgress) -> bool:
        for partition in self.partitions:
            if partition.slot == key and partition.is_pending:
                self._look(partition, view)
        return self._pending == 0

    def _look(self, partition: DeleteRecordsPartition, view: DeletionProgress) -> None:
        answer = view.low_watermark_of(partition.slot)
        if isinstance(answer, ErrorCode):
            partition.error_code = answer
        elif answer >= partition.required_offset:
            partition.error_code = ErrorCode.NONE
            partition.low_watermark = answer
        else:
            return
        partition.is_pending = False
        self._pending -= 1
