"""May this producer start, and with which producer id and epoch? (InitProducerId: KIP-98, 360)

A producer that sends its present id and epoch is no new instance: it may go on after an error, a zombie may not.
"""

from collections.abc import Callable

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.transactions import transitions
from kafkad.core.transactions.records import TransactionRecord
from kafkad.core.transactions.requests import InitProducerId
from kafkad.core.transactions.state import NO_EPOCH, is_epoch_exhausted
from kafkad.core.types import NO_PRODUCER_ID


def check_request(wanted: InitProducerId, max_timeout_ms: int) -> str:
    """The checks that need no state; returns the transactional id. Raises KafkaError."""
    if (wanted.producer_id == NO_PRODUCER_ID) != (wanted.producer_epoch == NO_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id goes with an epoch")
    if not wanted.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if not 0 < wanted.timeout_ms <= max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{wanted.timeout_ms} ms, allowed: {max_timeout_ms}")
    return wanted.transactional_id


def check_producer(current: TransactionRecord, wanted: InitProducerId) -> None:
    """A producer that sends a producer id has to be the last one that had it. Raises KafkaError."""
    if _expected_epoch(wanted) is None or current.producer_epoch == NO_EPOCH:
        return
    if wanted.producer_id == current.producer_id:
        return
    # A retry: the answer with the new producer id was lost.
    if wanted.producer_id == current.previous_producer_id and is_epoch_exhausted(wanted.producer_epoch):
        return
    raise KafkaError(ErrorCode.PRODUCER_FENCED, f"producer {wanted.producer_id} is not {current.producer_id}")


def next_record(
    current: TransactionRecord, wanted: InitProducerId, take_producer_id: Callable[[], int], now_ms: int
) -> TransactionRecord:
    """The record with which the producer starts when no transaction is open. Raises KafkaError."""
    expected = _expected_epoch(wanted)
    if is_epoch_exhausted(current.producer_epoch) and expected in (None, current.producer_epoch):
        return transitions.rotated(
            current, take_producer_id(), wanted.timeout_ms, now_ms, remembers_epoch=expected is not None
        )
    return transitions.initialized(current, wanted.timeout_ms, expected, now_ms)


def _expected_epoch(wanted: InitProducerId) -> int | None:
    return None if wanted.producer_id == NO_PRODUCER_ID else wanted.producer_epoch
