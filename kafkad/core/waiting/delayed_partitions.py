"""A request for several partitions that is complete when each partition has a result, or after its timeout.

Each partition without a result is checked when it changes. After the timeout partitions without a result get
REQUEST_TIMED_OUT; the others keep their results.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from kafkad.core.errors import ErrorCode
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
