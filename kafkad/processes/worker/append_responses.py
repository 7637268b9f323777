"""The state of a Produce request: results that are ready, or wait for the disk and then for replication."""

from collections.abc import Sequence
from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.partition_slot import STATE_OFFLINE
from kafkad.processes.worker.coordinators.transactions.transactional_produce import PendingProduce
from kafkad.processes.worker.owned import DeletedTopics, OwnedPartition
from kafkad.wire.processes.descriptors import AppendResult, AppendSlice, RecordErrors

_OFFLINE: AppendResult = (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
NOT_OWNED: AppendResult = (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
_DELETED: AppendResult = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)


def not_here(owned: OwnedPartition | None, slot: int, short_id: int, deleted: DeletedTopics) -> AppendResult:
    """The error of a partition that takes no batch; `owned` has its slot, if anything has."""
    if owned is not None and owned.state == STATE_OFFLINE:
        return _OFFLINE
    return _DELETED if deleted.includes(slot, short_id) else NOT_OWNED


class Unflushed(NamedTuple):
    """A batch that is in `log`, whose append lasts until everything below `end` is on disk (`flush.messages`)."""

    result: int
    owned: OwnedPartition
    log: PartitionLog
    end: int

    @property
    def is_waiting(self) -> bool:
        return not self.is_lost and self.log.completed_end < self.end

    @property
    def is_lost(self) -> bool:
        return self.owned.log is not self.log or not self.owned.is_online


class ProduceResponse:
    """Results that are ready, or wait for the disk and then for replication; `explained` is sent before them."""

    __slots__ = (
        "acks",
        "deadline_ms",
        "explained",
        "incarnation",
        "network",
        "part_id",
        "required",
        "results",
        "unflushed",
    )

    def __init__(self, network: int, incarnation: int, part_id: int, acks: int, deadline_ms: int) -> None:
        self.network = network
        self.incarnation = incarnation
        self.part_id = part_id
        self.acks = acks
        self.deadline_ms = deadline_ms
        self.results: list[AppendResult] = []
        self.required: list[tuple[int, int]] = []
        self.unflushed: list[Unflushed] = []
        self.explained: list[RecordErrors] = []


def is_flushed(answer: ProduceResponse, deleted: DeletedTopics) -> bool:
    """Whether no result waits for the disk any more. A batch whose sync failed or whose topic is gone gets an error."""
    if any(row.is_waiting for row in answer.unflushed):
        return False
    rows, answer.unflushed = answer.unflushed, []
    for row in rows:
        if row.is_lost:
            if answer.required:
                # `required` is in the order of the good results, and this one is not good.
                del answer.required[sum(result[0] == 0 for result in answer.results[: row.result])]
            answer.results[row.result] = not_here(row.owned, row.owned.slot, row.owned.short_id, deleted)
    return True


def with_codes(answer: ProduceResponse, codes: dict[int, ErrorCode]) -> list[AppendResult]:
    """The results after replication; `required` is in the order of the good results.

    As in Apache Kafka, an error leaves the offset: the batch is in the log.
    """
    outcomes = iter(answer.required)
    results: list[AppendResult] = []
    for result in answer.results:
        code = codes[next(outcomes)[0]] if result[0] == 0 else ErrorCode.NONE
        results.append(result if code == ErrorCode.NONE else (code, *result[1:]))
    return results


class PendingAppend:
    """What a request wants appended by this worker; the results of its answer tell how far it has come."""

    __slots__ = ("answer", "is_unwanted", "slices", "verified", "version")

    def __init__(
        self,
        answer: ProduceResponse,
        version: int,
        slices: Sequence[AppendSlice],
        verified: PendingProduce | None = None,
    ) -> None:
        self.answer = answer
        self.version = version
        self.slices = slices
        self.verified = verified
        """Of a request with a transactional id: what its coordinator has verified."""
        self.is_unwanted = False
        """Its network process is dead, and its arena may hold other data now."""
