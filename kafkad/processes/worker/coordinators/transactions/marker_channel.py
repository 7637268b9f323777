"""Sends the markers of the transactions that the coordinators of this worker have decided.

They are sent to the owners of the partitions until they are written (Apache Kafka: TransactionMarkerChannelManager).
An owner may be this worker, another one, or on another broker, and may die meanwhile; `Marking` decides where and when
to send.
"""

from functools import partial

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.image import NO_LEADER
from kafkad.core.coordinator.marking import HERE, MarkerRequest, MarkersAdvanced, MarkerWriter, Marking
from kafkad.core.coordinator.shard import Caller, Moment, Outcome, TxnMarkersToSend
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.records import AnyTransactionRecord
from kafkad.core.transactions.shard import TransactionShard
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.coordinators.transactions.marker_writer import TxnMarkerWriter
from kafkad.processes.worker.coordinators.transactions.other_brokers import OtherBrokers
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.processes.coordinator_messages import TxnMarkerRequest, TxnMarkerWritten, pack_coordination
from kafkad.wire.processes.descriptors import short_topic_id


class TxnMarkerChannel:
    """`writer` writes markers in this worker; without a cluster there are no `other_brokers`."""

    def __init__(
        self,
        me: ProcessKey,
        partitions: Partitions,
        coordinator_shards: CoordinatorShards,
        writer: TxnMarkerWriter,
        sender: Sender,
        other_brokers: OtherBrokers | None,
    ) -> None:
        self._me = me
        self._other_brokers = other_brokers
        self._partitions = partitions
        self._shards = coordinator_shards
        self._writer = writer
        self._sender = sender
        self._marking = Marking(self._writer_of)
        self._now_ms = 0

    @property
    def is_busy(self) -> bool:
        return self._marking.is_busy

    @property
    def next_deadline_ms(self) -> int | None:
        return self._marking.retry_at_ms

    def add(self, owned: OwnedPartition, markers: TxnMarkersToSend) -> None:
        """A shard has decided a transaction: send its markers at the end of the pass."""
        self._marking.order(owned.slot, markers)

    def forget(self, owned: OwnedPartition) -> None:
        """The shard was unloaded."""
        self._marking.forget(owned.slot)

    def written(self, message: TxnMarkerWritten) -> None:
        self._marking.response_received(message.marker_id, message.results, self._now_ms)

    def handle_request(self, peer: ProcessKey, message: TxnMarkerRequest) -> None:
        """Another worker's coordinator sends a marker for partitions of this worker."""
        self._writer.write(message, partial(self._respond, peer))

    def _respond(self, peer: ProcessKey, written: TxnMarkerWritten) -> None:
        # If the peer has died meanwhile, its successor sends the marker again.
        self._sender.send(peer, pack_coordination(written))

    def worker_lost(self, worker: ProcessKey) -> None:
        self._marking.worker_lost(worker.index, self._now_ms)

    def tick(self, now_ms: int) -> None:
        """End of a pass: send markers, and notify shards of written ones."""
        self._now_ms = now_ms
        if not len(self._marking) and not self._marking.is_busy:
            return
        for request in self._marking.take_requests(now_ms):
            self._send_request(request)
        for advanced in self._marking.take_advanced():
            self._notify_shard(advanced)
        for completed in self._marking.take_finished():
            self._shards.markers_written(completed.source, completed.transactional_id, completed.producer_epoch)
        rejected, self._marking.rejected = self._marking.rejected, []
        for line in rejected:
            self._shards.events.log("transaction markers", now_ms, "%s", line)

    def _notify_shard(self, advanced: MarkersAdvanced) -> None:
        def rule(caller: Caller, shard: TransactionShard, _moment: Moment) -> Outcome[AnyTransactionRecord]:
            return shard.markers_advanced(
                caller.token, advanced.transactional_id, advanced.producer_epoch, advanced.partitions
            )

        self._shards.run_internal(advanced.source, rule, lambda _reply: None)

    def _send_request(self, request: MarkerRequest) -> None:
        if request.broker != HERE:
            assert self._other_brokers is not None, "only a cluster has other brokers"
            self._other_brokers.write_markers(request, partial(self._completed_by_broker, request.marker_id))
            return
        requested = request.requested
        message = TxnMarkerRequest(
            request.marker_id,
            requested.producer_id,
            requested.producer_epoch,
            requested.coordinator_epoch,
            requested.is_commit,
            requested.transaction_version,
            request.slots,
        )
        if request.worker == self._me.index:
            self._writer.write(message, self.written)
        elif not self._sender.send(ProcessKey("worker", request.worker), pack_coordination(message)):
            self._marking.worker_lost(request.worker, self._now_ms)

    def _completed_by_broker(self, marker_id: int, codes: list[ErrorCode] | None) -> None:
        if codes is None:
            self._marking.lost(marker_id, self._now_ms)
        else:
            self._marking.response_received(marker_id, codes, self._now_ms)

    def _writer_of(self, topic: str, index: int) -> MarkerWriter | None:
        found = self._partitions.image.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        row = found.partitions[index]
        short_id = short_topic_id(found.id.bytes)
        if self._other_brokers is not None and row.leader not in (NO_LEADER, self._partitions.broker_id):
            return MarkerWriter(-1, row.slot, short_id, row.leader)
        return MarkerWriter(row.owner if row.slot >= 0 else -1, row.slot, short_id)
