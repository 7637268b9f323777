"""A transaction coordinator in memory, called like its handlers call it.

Topic "t" has ten partitions, "u" has two.
"""

from dataclasses import replace
from typing import Any
from uuid import UUID

from kafkad.adapters.patterns import compile_pattern
from kafkad.core.coordinator.shard import TxnMarkersToSend
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.config import TransactionConfig
from kafkad.core.transactions.records import AnyTransactionRecord, Partition
from kafkad.core.transactions.requests import (
    EndTxn,
    InitProducerId,
    OffsetsToAdd,
    PartitionResult,
    PartitionsToAdd,
    ProducerInitialized,
    TransactionDescription,
    TransactionEnded,
    TransactionFilter,
    TransactionsListed,
)
from kafkad.core.transactions.shard import TransactionShard
from kafkad.wire.records import transaction_records
from tests.core.coordinator.memory_log import Bed

TIMEOUT_MS = 60_000
COORDINATOR_EPOCH = 7
T0: Partition = ("t", 0)
T1: Partition = ("t", 1)


class FixedTopics:
    """Implements `Topics`."""

    def __init__(self) -> None:
        self.partitions = {"t": 10, "u": 2, "__consumer_offsets": 50}

    def partitions_of(self, name: str) -> int | None:
        return self.partitions.get(name)

    def id_of(self, name: str) -> UUID | None:
        return None

    def name_of(self, topic_id: UUID) -> str | None:
        return None

    def names(self) -> frozenset[str]:
        return frozenset(self.partitions)


class CountedIds:
    """Implements `ProducerIdManager`; with `is_dry` there are none."""

    def __init__(self) -> None:
        self.next = 1_000
        self.is_dry = False

    def take(self) -> int | None:
        if self.is_dry:
            return None
        self.next += 1
        return self.next - 1


class TransactionBed(Bed[AnyTransactionRecord]):
    """Requests are answered at once unless the log lags."""

    shard: TransactionShard

    def __init__(self, **config: Any) -> None:
        self.topics = FixedTopics()
        self.producer_ids = CountedIds()
        self.config = TransactionConfig(**config)
        super().__init__(self._shard, transaction_records)

    def _shard(self) -> TransactionShard:
        return TransactionShard(self.config, self.topics, self.producer_ids, COORDINATOR_EPOCH, compile_pattern)

    def configure(self, **config: Any) -> None:
        self.config = replace(self.config, **config)
        self.shard.configure(self.config)

    # Tokens, for requests whose answer is still to come.

    def ask_init(self, wanted: InitProducerId) -> int:
        return self.ask(lambda asked: self.shard.init_producer_id(asked.token, wanted, self.moment))

    def ask_add(self, *asked: PartitionsToAdd, client_version: int = 0) -> int:
        return self.ask(lambda each: self.shard.add_partitions(each.token, asked, client_version, self.moment))

    def ask_end(self, end: EndTxn) -> int:
        return self.ask(lambda asked: self.shard.end_txn(asked.token, end, self.moment))

    # Answers.

    def init(
        self, transactional_id: str = "x", producer_id: int = -1, epoch: int = -1, timeout_ms: int = TIMEOUT_MS
    ) -> Any:
        wanted = InitProducerId(transactional_id, timeout_ms, producer_id, epoch)
        return self.answers[self.ask_init(wanted)]

    def started(self, transactional_id: str = "x") -> tuple[int, int]:
        """Producer id and epoch of a producer that has just started."""
        reply = self.init(transactional_id)
        assert isinstance(reply, ProducerInitialized) and reply.code is ErrorCode.NONE, reply
        return reply.producer_id, reply.producer_epoch

    def add(
        self,
        producer: tuple[int, int],
        *partitions: Partition,
        transactional_id: str = "x",
        verify_only: bool = False,
        client_version: int = 0,
    ) -> tuple[PartitionResult, ...]:
        asked = PartitionsToAdd(transactional_id, *producer, partitions, verify_only)
        reply = self.answers[self.ask_add(asked, client_version=client_version)]
        ((_, results),) = reply.transactions
        return tuple(results)

    def added(self, producer: tuple[int, int], *partitions: Partition, transactional_id: str = "x") -> None:
        results = self.add(producer, *partitions, transactional_id=transactional_id)
        assert {row.code for row in results} == {ErrorCode.NONE}, results

    def add_code(self, producer: tuple[int, int], *partitions: Partition, **other: Any) -> ErrorCode:
        """The code that all partitions got."""
        (code,) = {row.code for row in self.add(producer, *partitions, **other)}
        return code

    def add_offsets(self, producer: tuple[int, int], group_id: str = "g") -> Any:
        asked = OffsetsToAdd("x", *producer, group_id)
        return self.answers[self.ask(lambda each: self.shard.add_offsets(each.token, asked, self.moment))]

    def end(
        self, producer: tuple[int, int], *, commit: bool = True, transactional_id: str = "x", version: int = 0
    ) -> TransactionEnded:
        end = EndTxn(transactional_id, *producer, commit, version)
        reply = self.answers[self.ask_end(end)]
        assert isinstance(reply, TransactionEnded), reply
        return reply

    def end_code(self, producer: tuple[int, int], **other: Any) -> ErrorCode:
        return self.end(producer, **other).code

    def describe(self, transactional_id: str = "x") -> TransactionDescription:
        token = self.ask(lambda asked: self.shard.describe(asked.token, [transactional_id]))
        (description,) = self.answers[token].transactions
        assert isinstance(description, TransactionDescription)
        return description

    def state(self, transactional_id: str = "x") -> str:
        return self.describe(transactional_id).state

    def list_all(self, **wanted: Any) -> TransactionsListed:
        asked = TransactionFilter(**wanted)
        token = self.ask(lambda each: self.shard.list_transactions(each.token, asked, self.moment))
        reply = self.answers[token]
        assert isinstance(reply, TransactionsListed)
        return reply

    def listed(self, **wanted: Any) -> list[str]:
        return sorted(row.transactional_id for row in self.list_all(**wanted).transactions)

    def catch_up(self) -> None:
        """Replicas are as fast as ever."""
        self.log.is_lagging = False
        self.runtime.advanced(self.moment)

    # What partitions do.

    def write_markers(self) -> list[TxnMarkersToSend]:
        """Every marker that was ordered is written."""
        ordered, self.markers = self.markers, []
        for wanted in ordered:
            self.markers_written(wanted.transactional_id, wanted.producer_epoch)
        return ordered
