"""Is a partition in a producer's transaction?

The appending worker asks the transaction coordinator. That is the worker that owns the transactional id's internal
partition, which may be this one, or the broker that leads it. Every question is answered, whatever happens to them:
with the codes of the coordinator, or with the reason why it could not be asked.
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
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.coordinators.transactions.other_brokers import OtherBrokers
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.processes.coordinator_messages import Verified, VerifyPartitionsRequest, pack_coordination

Answered = Callable[[list[ErrorCode]], None]
"""Called once with a code for each partition, in the order asked."""


class TransactionVerification:
    """`me` is this worker; `send` returns False when a worker can't be reached; without a cluster there are no
    `others`.
    """

    def __init__(
        self,
        me: ProcessKey,
        partitions: Partitions,
        coordinator_shards: CoordinatorShards,
        send: Callable[[ProcessKey, bytes], bool],
        others: OtherBrokers | None,
    ) -> None:
        self._me = me
        self._others = others
        self._partitions = partitions
        self._coordinator_shards = coordinator_shards
        self._send = send
        self._open: dict[int, tuple[ProcessKey, int, Answered]] = {}
        self._next_id = 1

    def is_there(self, topic: str, partition: int) -> bool:
        """Whether the topic has this partition, as far as this broker knows."""
        known = self._partitions.image.topics.get(topic)
        return known is not None and 0 <= partition < len(known.partitions)

    # Asking.

    def ask(self, question: PartitionsToVerify, answered: Answered) -> None:
        """Put `question` to the coordinator; `answered` may be called before this returns."""
        owner, _slot, leader = self._coordinator_of(question.transactional_id)
        if self._others is not None and leader not in (NO_LEADER, self._partitions.broker_id):
            self._ask_broker(self._others, leader, question, answered)
            return
        if owner == self._me:
            self._answer(question, answered)
            return
        question_id = self._next_id
        self._next_id += 1
        message = VerifyPartitionsRequest(
            question_id,
            question.transactional_id,
            question.producer_id,
            question.producer_epoch,
            question.adds,
            list(question.partitions),
        )
        self._open[question_id] = (owner or self._me, len(question.partitions), answered)
        if owner is None or not self._send(owner, pack_coordination(message)):
            self._lose(question_id)

    def _ask_broker(self, others: OtherBrokers, leader: int, question: PartitionsToVerify, answered: Answered) -> None:
        def replied(codes: list[ErrorCode] | None) -> None:
            answered([ErrorCode.NOT_COORDINATOR] * len(question.partitions) if codes is None else codes)

        others.verify(leader, question, replied)

    def heard(self, message: Verified) -> None:
        known = self._open.pop(message.request_id, None)
        if known is not None:
            known[2]([ErrorCode(code) for code in message.results])

    def worker_lost(self, worker: ProcessKey) -> None:
        for question_id in [question_id for question_id, row in self._open.items() if row[0] == worker]:
            self._lose(question_id)

    def _lose(self, question_id: int) -> None:
        _worker, count, answered = self._open.pop(question_id)
        answered([ErrorCode.NOT_COORDINATOR] * count)

    def _coordinator_of(self, transactional_id: str) -> tuple[ProcessKey | None, int, int]:
        """(worker, slot, leader of the internal partition)."""
        topic = self._partitions.image.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None, -1, NO_LEADER
        row = topic.partitions[partition_for(transactional_id, len(topic.partitions))]
        return (ProcessKey("worker", row.owner) if row.owner >= 0 else None), row.slot, row.leader

    # Answering.

    def wanted(self, peer: ProcessKey, message: VerifyPartitionsRequest) -> None:
        """Another worker asks."""
        question = PartitionsToVerify(
            message.transactional_id, message.producer_id, message.producer_epoch, message.adds, message.partitions
        )

        def answered(codes: list[ErrorCode]) -> None:
            self._send(peer, pack_coordination(Verified(message.request_id, [int(code) for code in codes])))

        self._answer(question, answered)

    def _answer(self, question: PartitionsToVerify, answered: Answered) -> None:
        count = len(question.partitions)
        _owner, slot, _leader = self._coordinator_of(question.transactional_id)

        def rule(caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[AnyTransactionRecord]:
            wanted = PartitionsToAdd(
                question.transactional_id,
                question.producer_id,
                question.producer_epoch,
                tuple(dict.fromkeys((topic, index) for topic, index in question.partitions)),
                not question.adds,
            )
            return shard.add_partitions(caller.token, [wanted], EPOCH_BUMPING, moment)

        def replied(reply: object) -> None:
            if isinstance(reply, ErrorCode):
                answered([reply] * count)
                return
            assert isinstance(reply, PartitionsAdded), f"a coordinator answers with {reply}"
            codes = {(row.topic, row.partition): row.code for _id, rows in reply.transactions for row in rows}
            answered([codes[topic, index] for topic, index in question.partitions])

        self._coordinator_shards.ask(slot, rule, replied)
