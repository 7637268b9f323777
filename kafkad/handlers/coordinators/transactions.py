"""The APIs of transaction coordinators: the requests of a transaction in their order, descriptions and lists."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.log.producers.checks import EPOCH_BUMPING
from kafkad.core.transactions.requests import (
    EndTxn,
    InitProducerId,
    OffsetsAdded,
    OffsetsToAdd,
    PartitionResult,
    PartitionsAdded,
    PartitionsToAdd,
    ProducerInitialized,
    TransactionDescription,
    TransactionEnded,
    TransactionFilter,
    TransactionsDescribed,
    TransactionsListed,
)
from kafkad.core.transactions.shard import TransactionShard
from kafkad.core.transactions.state import NO_EPOCH
from kafkad.core.types import NO_PRODUCER_ID
from kafkad.wire.kio_codec import Codec, codec, milliseconds
from kafkad.wire.messages.add_partitions_to_txn import pack_one, pack_several

_INIT_FENCED_FROM = 4
_FENCED_FROM = 2
"""Clients of older versions expect INVALID_PRODUCER_EPOCH for a fenced producer; KIP-588 added PRODUCER_FENCED."""


def _code_for(code: ErrorCode, version: int, fenced_from: int) -> ErrorCode:
    """`fenced_from` is the first version of the API with PRODUCER_FENCED."""
    is_old = version < fenced_from and code is ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code


class InitProducerIdApi:
    """InitProducerId, versions 0 to 5, of transactional producers.

    The response has an id and an epoch that fences previous producers.
    """

    @staticmethod
    def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
        # From version 3 on the request contains the producer's previous id and epoch.
        init = InitProducerId(
            transactional_id=request.transactional_id,
            timeout_ms=milliseconds(request.transaction_timeout),
            producer_id=getattr(request, "producer_id", NO_PRODUCER_ID),
            producer_epoch=getattr(request, "producer_epoch", NO_EPOCH),
        )
        return shard.init_producer_id(caller.token, init, moment)

    @staticmethod
    def pack(reply: ProducerInitialized, version: int) -> bytes:
        return codec("init_producer_id", version).encode(
            error_code=_code_for(reply.code, version, _INIT_FENCED_FROM),
            producer_id=reply.producer_id,
            producer_epoch=reply.producer_epoch,
        )

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return InitProducerIdApi.pack(ProducerInitialized(code=code), version)


_BATCHED_FROM = 4
"""Brokers send these versions, for producers with transaction version 2; other producers send earlier versions."""


def _transactions(request: Any, version: int) -> list[PartitionsToAdd]:
    if version < _BATCHED_FROM:
        return [
            PartitionsToAdd(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                _partitions(request.v3_and_below_topics),
            )
        ]
    return [
        PartitionsToAdd(
            each.transactional_id, each.producer_id, each.producer_epoch, _partitions(each.topics), each.verify_only
        )
        for each in request.transactions
    ]


def _partitions(topics: Iterable[Any]) -> tuple[tuple[str, int], ...]:
    """Each partition once, also if the request names it several times."""
    return tuple(dict.fromkeys((topic.name, index) for topic in topics for index in topic.partitions))


def _result_topics(results: tuple[PartitionResult, ...], version: int) -> list[tuple[str, list[tuple[int, int]]]]:
    by_topic = sorted(results, key=itemgetter(0))
    return [
        (topic, [(row.partition, _code_for(row.code, version, _FENCED_FROM)) for row in rows])
        for topic, rows in groupby(by_topic, key=itemgetter(0))
    ]


class AddPartitionsToTxnApi:
    """AddPartitionsToTxn: producers send versions 0 to 3, brokers send 4 and 5 for several transactions (KIP-890)."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
        client_version = EPOCH_BUMPING if caller.version >= _BATCHED_FROM else 0
        return shard.add_partitions(caller.token, _transactions(request, caller.version), client_version, moment)

    @staticmethod
    def pack(reply: PartitionsAdded, version: int) -> bytes:
        if version < _BATCHED_FROM:
            ((_transactional_id, results),) = reply.transactions
            return pack_one(version, _result_topics(results, version))
        return pack_several(
            (transactional_id, _result_topics(results, version)) for transactional_id, results in reply.transactions
        )

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        rows = (
            (each.transactional_id, tuple(PartitionResult(*partition, code) for partition in each.partitions))
            for each in _transactions(request, version)
        )
        return AddPartitionsToTxnApi.pack(PartitionsAdded(transactions=tuple(rows)), version)


class AddOffsetsToTxnApi:
    """AddOffsetsToTxn, versions 0 to 4: adds the partition with a group's offsets to a transaction."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
        offsets = OffsetsToAdd(request.transactional_id, request.producer_id, request.producer_epoch, request.group_id)
        return shard.add_offsets(caller.token, offsets, moment)

    @staticmethod
    def pack(reply: OffsetsAdded, version: int) -> bytes:
        return codec("add_offsets_to_txn", version).encode(error_code=_code_for(reply.code, version, _FENCED_FROM))

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return AddOffsetsToTxnApi.pack(OffsetsAdded(code=code), version)


_BUMPS_EPOCH_FROM = 5
"""Clients of this version use transaction version 2."""


class EndTxnApi:
    """EndTxn, versions 0 to 5: commit or abort.

    From version 5 on the producer gets the epoch of its next transaction.
    """

    @staticmethod
    def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
        end = EndTxn(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            is_commit=request.committed,
            client_version=EPOCH_BUMPING if caller.version >= _BUMPS_EPOCH_FROM else 0,
        )
        return shard.end_txn(caller.token, end, moment)

    @staticmethod
    def pack(reply: TransactionEnded, version: int) -> bytes:
        return codec("end_txn", version).encode(
            error_code=_code_for(reply.code, version, _FENCED_FROM),
            producer_id=reply.producer_id,
            producer_epoch=reply.producer_epoch,
        )

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return EndTxnApi.pack(TransactionEnded(code=code), version)


_EPOCH = datetime.fromtimestamp(0, UTC)


def _described_transaction(messages: Codec, row: TransactionDescription) -> Any:
    topics = (
        messages.part("TopicData", topic=topic, partitions=tuple(index for _, index in partitions))
        for topic, partitions in groupby(sorted(row.partitions), key=itemgetter(0))
    )
    return messages.part(
        "TransactionState",
        error_code=row.code,
        transactional_id=row.transactional_id,
        transaction_state=row.state,
        transaction_timeout=timedelta(milliseconds=row.timeout_ms),
        transaction_start_time=_EPOCH + timedelta(milliseconds=row.start_ms),
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        topics=tuple(topics),
    )


class DescribeTransactionsApi:
    """DescribeTransactions, version 0: the state of transactional ids and the partitions in their transactions."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
        return shard.describe(caller.token, request.transactional_ids)

    @staticmethod
    def pack(reply: TransactionsDescribed, version: int) -> bytes:
        messages = codec("describe_transactions", version)
        return messages.encode(
            transaction_states=tuple(_described_transaction(messages, each) for each in reply.transactions)
        )

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        rows = (TransactionDescription(transactional_id=each, code=code) for each in request.transactional_ids)
        return DescribeTransactionsApi.pack(TransactionsDescribed(transactions=tuple(rows)), version)


class ListTransactionsApi:
    """ListTransactions, versions 0 to 2: filters by state and producer id.

    From version 1 on also by duration, from version 2 on by a pattern.
    """

    @staticmethod
    def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
        transaction_filter = TransactionFilter(
            states=request.state_filters,
            producer_ids=request.producer_id_filters,
            duration_ms=getattr(request, "duration_filter", -1),
            pattern=getattr(request, "transactional_id_pattern", None),
        )
        return shard.list_transactions(caller.token, transaction_filter, moment)

    @staticmethod
    def pack(reply: TransactionsListed, version: int) -> bytes:
        messages = codec("list_transactions", version)
        rows = (
            messages.part(
                "TransactionState",
                transactional_id=row.transactional_id,
                producer_id=row.producer_id,
                transaction_state=row.state,
            )
            for row in reply.transactions
        )
        return messages.encode(
            error_code=reply.code, unknown_state_filters=reply.unknown_states, transaction_states=tuple(rows)
        )

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return ListTransactionsApi.pack(TransactionsListed(code=code), version)
