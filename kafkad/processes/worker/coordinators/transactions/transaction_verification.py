"""Verifies that partitions are in a producer's transaction.

The transaction coordinator is the owner of the internal partition of the transactional id: this worker, another one, or
another broker. Every request completes, with the codes of the coordinator or with NOT_COORDINATOR.
"""

from collections.abc import Callable

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.image import NO_LEADER
from kafkad.core.controller.topics.names import TRANSACTION_STATE_TOPIC
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.log.producers.checks import EPOCH_BUMPING
from kafkad.core.transactions.records import AnyTransactionRecord
from kafkad.core.transactions.requests import PartitionsAdded, PartitionsToAdd, PartitionsToVerify
from kafkad.core.transactions.shard import TransactionShard
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.coordinators.transactions.other_brokers import OtherBrokers
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.processes.coordinator_messages import Verified, VerifyPartitionsRequest, pack_coordination

OnVerified = Callable[[list[ErrorCode]], None]
"""Called once with a code for each partition, in the order of the request."""


class TransactionVerification:
    """`me` is this worker; without a cluster there are no `other_brokers`."""

    def __init__(
        self,
        me: ProcessKey,
        partitions: Partitions,
        coordinator_shards: CoordinatorShards,
        sender: Sender,
        other_brokers: OtherBrokers | None,
    ) -> None:
        self._me = me
        self._other_brokers = other_brokers
        self._partitions = partitions
        self._coordinator_shards = coordinator_shards
        self._sender = sender
        self._pending: dict[int, tuple[ProcessKey, int, OnVerified]] = {}
        self._next_id = 1

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether the topic has this partition in this broker's metadata."""
        pending = self._partitions.image.topics.get(topic)
        return pending is not None and 0 <= partition < len(pending.partitions)

    # Requests to coordinators.

    def verify(self, request: PartitionsToVerify, completed: OnVerified) -> None:
        """Send `request` to the coordinator; `completed` may be called before this returns."""
        owner, _slot, leader = self._coordinator_of(request.transactional_id)
        if self._other_brokers is not None and leader not in (NO_LEADER, self._partitions.broker_id):
            self._verify_on_broker(self._other_brokers, leader, request, completed)
            return
        if owner == self._me:
            self._handle(request, completed)
            return
        request_id = self._next_id
        self._next_id += 1
        message = VerifyPartitionsRequest(
            request_id,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.adds,
            list(request.partitions),
        )
        self._pending[request_id] = (owner or self._me, len(request.partitions), completed)
        if owner is None or not self._sender.send(owner, pack_coordination(message)):
            self._fail(request_id)

    def _verify_on_broker(
        self, other_brokers: OtherBrokers, leader: int, request: PartitionsToVerify, completed: OnVerified
    ) -> None:
        def replied(codes: list[ErrorCode] | None) -> None:
            completed([ErrorCode.NOT_COORDINATOR] * len(request.partitions) if codes is None else codes)

        other_brokers.verify(leader, request, replied)

    def handle_response(self, message: Verified) -> None:
        pending = self._pending.pop(message.request_id, None)
        if pending is not None:
            pending[2]([ErrorCode(code) for code in message.results])

    def worker_lost(self, worker: ProcessKey) -> None:
        for request_id in [request_id for request_id, row in self._pending.items() if row[0] == worker]:
            self._fail(request_id)

    def _fail(self, request_id: int) -> None:
        _worker, count, completed = self._pending.pop(request_id)
        completed([ErrorCode.NOT_COORDINATOR] * count)

    def _coordinator_of(self, transactional_id: str) -> tuple[ProcessKey | None, int, int]:
        """(worker, slot, leader of the internal partition)."""
        topic = self._partitions.image.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None, -1, NO_LEADER
        row = topic.partitions[partition_for(transactional_id, len(topic.partitions))]
        return (ProcessKey("worker", row.owner) if row.owner >= 0 else None), row.slot, row.leader

    # Requests to the coordinators of this worker.

    def handle_request(self, peer: ProcessKey, message: VerifyPartitionsRequest) -> None:
        """A request of another worker."""
        request = PartitionsToVerify(
            message.transactional_id, message.producer_id, message.producer_epoch, message.adds, message.partitions
        )

        def completed(codes: list[ErrorCode]) -> None:
            self._sender.send(peer, pack_coordination(Verified(message.request_id, [int(code) for code in codes])))

        self._handle(request, completed)

    def _handle(self, request: PartitionsToVerify, completed: OnVerified) -> None:
        count = len(request.partitions)
        _owner, slot, _leader = self._coordinator_of(request.transactional_id)

        def rule(caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[AnyTransactionRecord]:
            to_add = PartitionsToAdd(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                tuple(dict.fromkeys((topic, index) for topic, index in request.partitions)),
                not request.adds,
            )
            return shard.add_partitions(caller.token, [to_add], EPOCH_BUMPING, moment)

        def replied(reply: object) -> None:
            if isinstance(reply, ErrorCode):
                completed([reply] * count)
                return
            assert isinstance(reply, PartitionsAdded), f"unexpected reply of a coordinator: {reply}"
            codes = {(row.topic, row.partition): row.code for _id, rows in reply.transactions for row in rows}
            completed([codes[topic, index] for topic, index in request.partitions])

        self._coordinator_shards.run_internal(slot, rule, replied)
