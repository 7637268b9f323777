"""When is a Produce with acks=all complete, and with which result for each partition?

It waits until the high watermark of every partition has reached the end of its batch, or until an error. After the
timeout pending partitions get REQUEST_TIMED_OUT; the others keep their results.
"""

from typing import Generic, Protocol

from kafkad.core.errors import ErrorCode
from kafkad.core.waiting.delayed_partitions import DelayedPartitions, PendingPartition, Request


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
