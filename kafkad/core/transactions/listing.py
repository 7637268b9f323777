"""DescribeTransactions and ListTransactions (KIP-664, 994, 1152) for the transactions of a shard."""

from collections.abc import Iterable, Sequence

from kafkad.core.errors import ErrorCode
from kafkad.core.ports import CompilePattern, Pattern
from kafkad.core.transactions.metadata_cache import TransactionMetadataCache
from kafkad.core.transactions.records import TransactionRecord
from kafkad.core.transactions.requests import (
    ListedTransaction,
    TransactionDescription,
    TransactionFilter,
    TransactionsDescribed,
    TransactionsListed,
)
from kafkad.core.transactions.state import STATES_BY_NAME


def describe(cache: TransactionMetadataCache, transactional_ids: Sequence[str]) -> TransactionsDescribed:
    return TransactionsDescribed(transactions=tuple(_describe_one(cache, name) for name in transactional_ids))


def _describe_one(cache: TransactionMetadataCache, transactional_id: str) -> TransactionDescription:
    if not transactional_id:
        return TransactionDescription(transactional_id=transactional_id, code=ErrorCode.INVALID_REQUEST)
    record = cache.get(transactional_id)
    if record is None:
        return TransactionDescription(transactional_id=transactional_id, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return TransactionDescription(
        transactional_id=transactional_id,
        state=record.state.kafka_name,
        timeout_ms=record.timeout_ms,
        start_ms=record.start_ms,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        partitions=cache.unmarked(record),
    )


def list_transactions(
    cache: TransactionMetadataCache, request: TransactionFilter, now_ms: int, compile_pattern: CompilePattern
) -> TransactionsListed:
    try:
        pattern = compile_pattern(request.pattern) if request.pattern else None
        rows = list(_matching(cache.oldest_first(), request, pattern, now_ms))
    except ValueError:
        return TransactionsListed(code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return TransactionsListed(
        unknown_states=tuple(dict.fromkeys(name for name in request.states if name not in STATES_BY_NAME)),
        transactions=tuple(
            ListedTransaction(row.transactional_id, row.producer_id, row.state.kafka_name) for row in rows
        ),
    )


def _matching(
    rows: Iterable[TransactionRecord], request: TransactionFilter, pattern: Pattern | None, now_ms: int
) -> Iterable[TransactionRecord]:
    # An empty filter matches all; a filter with only unknown states matches nothing.
    states = {STATES_BY_NAME[name] for name in request.states if name in STATES_BY_NAME}
    producer_ids = frozenset(request.producer_ids)
    for row in rows:
        if producer_ids and row.producer_id not in producer_ids:
            continue
        if request.states and row.state not in states:
            continue
        if request.duration_ms >= 0 and now_ms - row.start_ms <= request.duration_ms:
            continue
        if pattern is not None and pattern.fullmatch(row.transactional_id) is None:
            continue
        yield row
