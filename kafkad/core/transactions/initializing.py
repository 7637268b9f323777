"""May this producer start, and with which producer id and epoch? (InitProducerId: KIP-98, 360)

A producer that sends its current id and epoch is no new instance: it may continue after an error; a zombie may not.
"""

from collections.abc import Callable

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.transactions import transitions
from kafkad.core.transactions.records import TransactionRecord
from kafkad.core.transactions.requests import InitProducerId
from kafkad.core.transactions.state import NO_EPOCH, is_epoch_exhausted
from kafkad.core.types import NO_PRODUCER_ID


def check_request(request: InitProducerId, max_timeout_ms: int) -> str:
    """The checks without state; returns the transactional id. Raises `KafkaError`."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "producer id and epoch must be sent together")
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if not 0 < request.timeout_ms <= max_timeout_ms:
        raise KafkaError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"the timeout of {request.timeout_ms} ms is not between 1 and {max_timeout_ms}",
        )
    return request.transactional_id


def check_producer(current: TransactionRecord, request: InitProducerId) -> None:
    """A sent producer id must be the newest of the transactional id. Raises `KafkaError`."""
    if _expected_epoch(request) is None or current.producer_epoch == NO_EPOCH:
        return
    if request.producer_id == current.producer_id:
        return
    # A retry: the response with the new producer id was lost.
    if request.producer_id == current.previous_producer_id and is_epoch_exhausted(request.producer_epoch):
        return
    raise KafkaError(ErrorCode.PRODUCER_FENCED, f"producer {request.producer_id} is not {current.producer_id}")


def next_record(
    current: TransactionRecord, request: InitProducerId, take_producer_id: Callable[[], int], now_ms: int
) -> TransactionRecord:
    """The record of a starting producer without an open transaction. Raises `KafkaError`."""
    expected = _expected_epoch(request)
    if is_epoch_exhausted(current.producer_epoch) and expected in (None, current.producer_epoch):
        return transitions.rotated(
            current, take_producer_id(), request.timeout_ms, now_ms, keeps_epoch=expected is not None
        )
    return transitions.initialized(current, request.timeout_ms, expected, now_ms)


def _expected_epoch(request: InitProducerId) -> int | None:
    return None if request.producer_id == NO_PRODUCER_ID else request.producer_epoch
