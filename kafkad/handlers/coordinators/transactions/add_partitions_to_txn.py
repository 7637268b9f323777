"""AddPartitionsToTxn: producers send versions 0 to 3, brokers send 4 and 5 for several transactions (KIP-890)."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.log.producers.checks import EPOCH_BUMPING
from kafkad.core.transactions.requests import PartitionResult, PartitionsAdded, PartitionsToAdd
from kafkad.core.transactions.shard import TransactionShard
from kafkad.handlers.coordinators.requests.fenced_codes import code_for
from kafkad.wire.messages.add_partitions_to_txn import pack_one, pack_several

BATCHED_FROM = 4
"""Brokers send these versions, for producers with transaction version 2; other producers send earlier versions."""
FENCED_FROM = 2
"""Clients of older versions expect INVALID_PRODUCER_EPOCH for a fenced producer."""


def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
    client_version = EPOCH_BUMPING if caller.version >= BATCHED_FROM else 0
    return shard.add_partitions(caller.token, _transactions(request, caller.version), client_version, moment)


def pack(reply: PartitionsAdded, version: int) -> bytes:
    if version < BATCHED_FROM:
        ((_transactional_id, results),) = reply.transactions
        return pack_one(version, _topics(results, version))
    return pack_several(
        (transactional_id, _topics(results, version)) for transactional_id, results in reply.transactions
    )


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    rows = (
        (each.transactional_id, tuple(PartitionResult(*partition, code) for partition in each.partitions))
        for each in _transactions(request, version)
    )
    return pack(PartitionsAdded(transactions=tuple(rows)), version)


def _transactions(request: Any, version: int) -> list[PartitionsToAdd]:
    if version < BATCHED_FROM:
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


def _topics(results: tuple[PartitionResult, ...], version: int) -> list[tuple[str, list[tuple[int, int]]]]:
    by_topic = sorted(results, key=itemgetter(0))
    return [
        (topic, [(row.partition, code_for(row.code, version, FENCED_FROM)) for row in rows])
        for topic, rows in groupby(by_topic, key=itemgetter(0))
    ]
