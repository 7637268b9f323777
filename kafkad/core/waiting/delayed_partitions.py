"""A request about several partitions that is answered when each has its own answer, or after its timeout.

Each partition is looked at when it changes, until it has an answer. After the timeout those without one are answered
with REQUEST_TIMED_OUT; the others keep their answers.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from kafkad.core.errors import ErrorCode
from kafkad.core.waiting.purgatory import DelayedOperation

Progress = TypeVar("Progress", contravariant=True)
Request = TypeVar("Request")


class PendingPartition:
    """One partition of the request. Plain and mutable: one is made per batch on the produce path."""

    __slots__ = ("error_code", "is_pending", "required_offset", "slot")

    def __init__(self, slot: int, required_offset: int, error_code: ErrorCode = ErrorCode.NONE) -> None:
        self.slot = slot
        self.required_offset = required_offset
        # A failed append has its answer; a successful one times out unless it is replicated in time.
        self.is_pending = error_code == ErrorCode.NONE
        self.error_code = ErrorCode.REQUEST_TIMED_OUT if self.is_pending else error_code


Row = TypeVar("Row", bound=PendingPartition)


class DelayedPartitions(DelayedOperation[int, Progress], Generic[Row, Progress, Request]):
    """Watches its partitions' slots; `request` is whatever the owner needs to send the answer."""

    __slots__ = ("_pending", "partitions", "request")

    def __init__(self, *, request: Request, deadline_ms: int, partitions: Sequence[Row]) -> None:
        waiting = [partition for partition in partitions if partition.is_pending]
        super().__init__(keys=[partition.slot for partition in waiting], deadline_ms=deadline_ms)
        self.request = request
        self.partitions = partitions
        self._pending = len(waiting)

    def try_complete(self, view: Progress) -> bool:
        return self._look_at(self.partitions, view)

    def try_complete_key(self, key: int, view: Progress) -> bool:
        return self._look_at([partition for partition in self.partitions if partition.slot == key], view)

    def _look_at(self, partitions: Sequence[Row], view: Progress) -> bool:
        for partition in partitions:
            if partition.is_pending and (code := self.answer_of(partition, view)) is not None:
                partition.error_code = code
                partition.is_pending = False
                self._pending -= 1
        return self._pending == 0

    @abstractmethod
    def answer_of(self, partition: Row, view: Progress) -> ErrorCode | None:
        """None: not yet; NONE: done; any other code: waiting is pointless."""
