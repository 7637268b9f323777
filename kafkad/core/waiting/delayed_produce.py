"""When may a produce with acks=all be answered, and with which code for each partition?

It waits until every partition's high watermark has reached the end of its batch, or can't any more.
Time out, and each partition that is still waiting says REQUEST_TIMED_OUT; the others keep their own result.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from kafkad.core.errors import ErrorCode
from kafkad.core.waiting.purgatory import DelayedOperation

Request = TypeVar("Request")


class ProduceProgress(Protocol):
    """What a delayed produce may ask about a partition (the worker that owns it answers)."""

    def replication_of(self, slot: int, required_offset: int) -> ErrorCode | None:
        """None: not there yet; NONE: replicated; any other code: the answer, there is no point in waiting."""


def replication_verdict(
    *, high_watermark: int, required_offset: int, in_sync: int, min_in_sync: int
) -> ErrorCode | None:
    """The leader's own answer to `replication_of`: replicated, and by enough replicas still in sync?"""
    if high_watermark < required_offset:
        return None
    return ErrorCode.NONE if in_sync >= min_in_sync else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class ProducePartition:
    """One partition of the request. Plain and mutable: one is made per batch on the produce path."""

    __slots__ = ("error_code", "is_pending", "required_offset", "slot")

    def __init__(self, slot: int, required_offset: int, error_code: ErrorCode = ErrorCode.NONE) -> None:
        self.slot = slot
        self.required_offset = required_offset
        # A failed append has its answer; a good one times out unless its acknowledgement comes.
        self.is_pending = error_code == ErrorCode.NONE
        self.error_code = ErrorCode.REQUEST_TIMED_OUT if self.is_pending else error_code


class DelayedProduce(DelayedOperation[int, ProduceProgress], Generic[Request]):
    """Watches its partitions' slots; `request` is whatever the owner needs to send the answer."""

    __slots__ = ("_pending", "partitions", "request")

    def __init__(self, *, request: Request, deadline_ms: int, partitions: Sequence[ProducePartition]) -> None:
        waiting = [partition for partition in partitions if partition.is_pending]
        super().__init__(keys=[partition.slot for partition in waiting], deadline_ms=deadline_ms)
        self.request = request
        self.partitions = partitions
        self._pending = len(waiting)

    def try_complete(self, view: ProduceProgress) -> bool:
        for partition in self.partitions:
            if partition.is_pending:
                self._look(partition, view)
        return self._pending == 0

    def try_complete_key(self, key: int, view: ProduceProgress) -> bool:
        for partition in self.partitions:
            if partition.slot == key and partition.is_pending:
                self._look(partition, view)
        return self._pending == 0

    def _look(self, partition: ProducePartition, view: ProduceProgress) -> None:
        code = view.replication_of(partition.slot, partition.required_offset)
        if code is not None:
            partition.error_code = code
            partition.is_pending = False
            self._pending -= 1
