"""DescribeTransactions, version 0: the state of transactional ids and the partitions in their transactions."""

from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import TransactionDescription, TransactionsDescribed
from kafkad.core.transactions.shard import TransactionShard
from kafkad.wire.kio_codec import Codec, codec

_EPOCH = datetime.fromtimestamp(0, UTC)


def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
    return shard.describe(caller.token, request.transactional_ids)


def pack(reply: TransactionsDescribed, version: int) -> bytes:
    messages = codec("describe_transactions", version)
    return messages.encode(transaction_states=tuple(_pack_one(messages, each) for each in reply.transactions))


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    rows = (TransactionDescription(transactional_id=each, code=code) for each in request.transactional_ids)
    return pack(TransactionsDescribed(transactions=tuple(rows)), version)


def _pack_one(messages: Codec, row: TransactionDescription) -> Any:
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
