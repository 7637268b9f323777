"""When may a produce with acks=all be answered, and with which code for each partition?

It waits until every partition's high watermark has reached the end of its batch, or can't any more. After the timeout
each partition that is still waiting is answered with REQUEST_TIMED_OUT; the others keep their results.
"""

from typing import Generic, Protocol

from kafkad.core.errors import ErrorCode
from kafkad.core.waiting.delayed_partitions import DelayedPartitions, PendingPartition, Request


class ProduceProgress(Protocol):
    """What a delayed produce needs to know of a partition; the worker that owns it answers."""

    def replication_of(self, slot: int, required_offset: int) -> ErrorCode | None:
        """None: not yet; NONE: replicated; any other code: the answer, as waiting is pointless."""


def replication_verdict(
    *, high_watermark: int, required_offset: int, in_sync: int, min_in_sync: int
) -> ErrorCode | None:
    """The answer of the leader to `replication_of`: replicated, and by enough in-sync replicas?"""
    if high_watermark < required_offset:
        return None
    return ErrorCode.NONE if in_sync >= min_in_sync else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class DelayedProduce(DelayedPartitions[PendingPartition, ProduceProgress, Request], Generic[Request]):
    """A partition is done when its high watermark has reached the end of its batch."""

    __slots__ = ()

    def answer_of(self, partition: PendingPartition, view: ProduceProgress) -> ErrorCode | None:
        return view.replication_of(partition.slot, partition.required_offset)
