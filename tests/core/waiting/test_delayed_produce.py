"""Produce with acks=all: the answer waits for the high watermark, or has an error for each partition."""

from kafkad.core.errors import ErrorCode
from kafkad.core.waiting.delayed_partitions import DelayedProduce, PendingPartition, replication_result
from kafkad.core.waiting.purgatory import Purgatory


class Leader:
    """The partitions of one worker, as far as a delayed produce asks."""

    def __init__(self) -> None:
        self.high_watermarks: dict[int, int] = {}
        self.in_sync = 1
        self.min_in_sync = 1
        self.lost: dict[int, ErrorCode] = {}

    def replication_of(self, slot: int, required_offset: int) -> ErrorCode | None:
        if slot in self.lost:
            return self.lost[slot]
        return replication_result(
            high_watermark=self.high_watermarks.get(slot, 0),
            required_offset=required_offset,
            in_sync=self.in_sync,
            min_in_sync=self.min_in_sync,
        )


def waiting_produce(leader: Leader, *partitions: PendingPartition) -> Purgatory[DelayedProduce[str], Leader]:
    purgatory: Purgatory[DelayedProduce[str], Leader] = Purgatory(view=leader, start_ms=0)
    produce = DelayedProduce(request="r1", deadline_ms=30_000, partitions=partitions)
    assert not purgatory.try_complete_else_watch(produce)
    return purgatory


def codes(produce: DelayedProduce[str]) -> dict[int, ErrorCode]:
    return {partition.slot: partition.error_code for partition in produce.partitions}


def test_a_single_replica_answers_at_once() -> None:
    leader = Leader()
    leader.high_watermarks[3] = 10
    purgatory: Purgatory[DelayedProduce[str], Leader] = Purgatory(view=leader, start_ms=0)
    produce = DelayedProduce(request="r1", deadline_ms=30_000, partitions=[PendingPartition(3, 10)])
    assert purgatory.try_complete_else_watch(produce)
    assert codes(produce) == {3: ErrorCode.NONE}


def test_produce_waits_until_every_high_watermark_is_there() -> None:
    leader = Leader()
    purgatory = waiting_produce(leader, PendingPartition(1, 10), PendingPartition(2, 5))
    leader.high_watermarks = {1: 10, 2: 4}
    assert purgatory.check_and_complete(1) == []
    leader.high_watermarks = {1: 10, 2: 5}
    (produce,) = purgatory.check_and_complete(2)
    assert codes(produce) == {1: ErrorCode.NONE, 2: ErrorCode.NONE}
    assert produce.request == "r1"


def test_a_timeout_is_told_of_the_unsatisfied_partitions_only() -> None:
    leader = Leader()
    refused = PendingPartition(3, 0, ErrorCode.MESSAGE_TOO_LARGE)
    purgatory = waiting_produce(leader, PendingPartition(1, 10), PendingPartition(2, 5), refused)
    leader.high_watermarks = {1: 10}
    purgatory.check_and_complete(1)
    (produce,) = purgatory.expire(30_000)
    assert codes(produce) == {
        1: ErrorCode.NONE,
        2: ErrorCode.REQUEST_TIMED_OUT,
        3: ErrorCode.MESSAGE_TOO_LARGE,
    }


def test_a_lost_leadership_ends_the_waiting_with_its_code() -> None:
    leader = Leader()
    purgatory = waiting_produce(leader, PendingPartition(1, 10))
    leader.lost[1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    (produce,) = purgatory.check_and_complete(1)
    assert codes(produce) == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_replicated_by_too_few_is_an_error_after_the_append() -> None:
    leader = Leader()
    leader.min_in_sync = 2
    purgatory = waiting_produce(leader, PendingPartition(1, 10))
    leader.high_watermarks[1] = 12
    (produce,) = purgatory.check_and_complete(1)
    assert codes(produce) == {1: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}


def test_a_produce_of_nothing_but_errors_does_not_wait() -> None:
    purgatory: Purgatory[DelayedProduce[str], Leader] = Purgatory(view=Leader(), start_ms=0)
    failed = PendingPartition(1, 0, ErrorCode.CORRUPT_MESSAGE)
    assert purgatory.try_complete_else_watch(DelayedProduce(request="r", deadline_ms=9, partitions=[failed]))
