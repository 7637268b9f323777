"""The state of a Produce request: its results, some of which wait for the disk and then for replication."""

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


def unavailable_result(owned: OwnedPartition | None, slot: int, short_id: int, deleted: DeletedTopics) -> AppendResult:
    """The error of a partition that accepts no batch. `owned`: the partition that has the slot now, if any."""
    if owned is not None and owned.state == STATE_OFFLINE:
        return _OFFLINE
    return _DELETED if deleted.includes(slot, short_id) else NOT_OWNED


class Unflushed(NamedTuple):
    """A batch in `log` whose append completes when all records below `end` are on disk (`flush.messages`).

    A broker that has lost the leadership since may have truncated the batch: the producer has to send it again.
    """

    result: int
    owned: OwnedPartition
    log: PartitionLog
    end: int
    lost_leaderships: int

    @property
    def is_waiting(self) -> bool:
        return not self.is_lost and self.log.completed_end < self.end

    @property
    def is_lost(self) -> bool:
        owned = self.owned
        return owned.log is not self.log or not owned.is_online or owned.lost_leaderships != self.lost_leaderships


class ProduceResponse:
    """The results of a request; `record_errors` are sent before them."""

    __slots__ = (
        "acks",
        "deadline_ms",
        "incarnation",
        "network",
        "part_id",
        "record_errors",
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
        self.required: list[tuple[int, int, int]] = []
        """(slot, offset that the high watermark must reach, lost leaderships at the append) for each appended batch."""
        self.unflushed: list[Unflushed] = []
        self.record_errors: list[RecordErrors] = []

    def wait_for_disk(self, owned: OwnedPartition, partition_log: PartitionLog, end: int) -> None:
        """The next result waits until all records below `end` are on disk."""
        row = Unflushed(len(self.results), owned, partition_log, end, owned.lost_leaderships)
        self.unflushed.append(row)


def is_flushed(response: ProduceResponse, deleted: DeletedTopics) -> bool:
    """Whether no result waits for the disk. A batch gets an error if its sync failed, its topic was deleted or this
    broker has lost the leadership.
    """
    if any(row.is_waiting for row in response.unflushed):
        return False
    rows, response.unflushed = response.unflushed, []
    for row in rows:
        if row.is_lost:
            if response.required:
                # `required` is in the order of the successful results, and this result has an error now.
                del response.required[sum(result[0] == 0 for result in response.results[: row.result])]
            response.results[row.result] = unavailable_result(row.owned, row.owned.slot, row.owned.short_id, deleted)
    return True


def with_codes(response: ProduceResponse, codes: dict[int, ErrorCode]) -> list[AppendResult]:
    """The results after replication; `required` is in the order of the successful results.

    As in Apache Kafka, a result with an error keeps its offset: the batch is in the log.
    """
    outcomes = iter(response.required)
    results: list[AppendResult] = []
    for result in response.results:
        code = codes[next(outcomes)[0]] if result[0] == 0 else ErrorCode.NONE
        results.append(result if code == ErrorCode.NONE else (code, *result[1:]))
    return results


class PendingAppend:
    """The batches of a request for this worker. The number of results of its response is its progress."""

    __slots__ = ("is_abandoned", "response", "slices", "verified", "version")

    def __init__(
        self,
        response: ProduceResponse,
        version: int,
        slices: Sequence[AppendSlice],
        verified: PendingProduce | None = None,
    ) -> None:
        self.response = response
        self.version = version
        self.slices = slices
        self.verified = verified
        """The verification by the coordinator, for a request with a transactional id."""
        self.is_abandoned = False
        """Its network process is dead: its arena may have other data now."""
