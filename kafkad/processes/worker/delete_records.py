"""DeleteRecords in the worker: complete when the log of every replica starts at the requested offset.

The owner deletes at once; the response waits for the other replicas. With one replica nothing waits.
"""

from collections.abc import Callable

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode
from kafkad.core.metrics.catalogue import PURGATORY_DELETE_RECORDS
from kafkad.core.waiting.delayed_partitions import DelayedDeleteRecords, DeleteRecordsPartition, DeletionProgress
from kafkad.core.waiting.purgatory import Purgatory
from kafkad.processes.runtime.peers import Sender
from kafkad.wire.processes.descriptors import DeletedRecords, DeleteRecordsRequest, pack_control

Requester = tuple[ProcessKey, int, int]
"""The requesting network process, its incarnation (as counted here) and the number of the request."""


class PendingDeleteRecords:
    """The pending DeleteRecords requests of this worker.

    `delete(slot, short_id, offset)` increments the log start offset, and returns an error and the offset that the
    replicas must reach.
    """

    def __init__(
        self,
        *,
        now_ms: int,
        block: CounterBlock,
        progress: DeletionProgress,
        delete: Callable[[int, int, int], tuple[ErrorCode, int]],
        sender: Sender,
    ) -> None:
        self._block = block
        self._delete = delete
        self._sender = sender
        self._purgatory: Purgatory[DelayedDeleteRecords[Requester], DeletionProgress] = Purgatory(
            view=progress, start_ms=now_ms
        )
        self._incarnations: dict[ProcessKey, int] = {}
        """The deaths of each network process: its next incarnation reuses the numbers of requests."""

    @property
    def next_deadline_ms(self) -> int | None:
        return self._purgatory.next_expiration_ms()

    def start(self, peer: ProcessKey, message: DeleteRecordsRequest) -> None:
        rows = []
        for slot, short_id, offset in message.partitions:
            error, required = self._delete(slot, short_id, offset)
            rows.append(DeleteRecordsPartition(slot, required, error))
        operation = DelayedDeleteRecords(
            request=(peer, self.incarnation_of(peer), message.part_id), deadline_ms=message.deadline_ms, partitions=rows
        )
        if self._purgatory.try_complete_else_watch(operation):
            self._reply(operation)
        self._count()

    def progressed(self, slot: int) -> None:
        """A replica of `slot` has advanced, or the partition left: check the requests that wait for it."""
        if len(self._purgatory):
            for operation in self._purgatory.check_and_complete(slot):
                self._reply(operation)
            self._count()

    def expire(self, now_ms: int) -> None:
        for operation in self._purgatory.expire(now_ms):
            self._reply(operation)
            self._count()

    def incarnation_of(self, peer: ProcessKey) -> int:
        """The incarnation of a network process, as counted here."""
        return self._incarnations.get(peer, 0)

    def network_lost(self, network: ProcessKey) -> None:
        """The network process is dead: drop its requests."""
        self._incarnations[network] = self._incarnations.get(network, 0) + 1

    def _reply(self, operation: DelayedDeleteRecords[Requester]) -> None:
        peer, incarnation, part_id = operation.request
        if incarnation == self._incarnations.get(peer, 0):
            results = [(int(row.error_code), row.low_watermark) for row in operation.partitions]
            self._sender.send(peer, pack_control(DeletedRecords(part_id, results)))

    def _count(self) -> None:
        self._block[PURGATORY_DELETE_RECORDS] = len(self._purgatory)
