"""ListTransactions, versions 0 to 2: filters by state and producer id, since 1 by duration, since 2 by a pattern."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import TransactionFilter, TransactionsListed
from kafkad.core.transactions.shard import TransactionShard
from kafkad.wire.kio_codec import codec


def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
    transaction_filter = TransactionFilter(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        duration_ms=getattr(request, "duration_filter", -1),
        pattern=getattr(request, "transactional_id_pattern", None),
    )
    return shard.list_transactions(caller.token, transaction_filter, moment)


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


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack(TransactionsListed(code=code), version)
