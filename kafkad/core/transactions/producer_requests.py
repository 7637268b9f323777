"""May this producer start, add partitions to its transaction, and end it?

InitProducerId (KIP-98, 360): a producer that sends its current id and epoch is no new instance: it may continue after
an error; a zombie may not.

AddPartitionsToTxn and AddOffsetsToTxn (KIP-890): all or nothing. If one partition does not exist, none is added.

EndTxn: before transaction version 2 an end does not change the epoch, and the state decides. Since then every end bumps
the epoch, so a retry has the previous epoch:

                 abort, retry       abort, current      commit, retry      commit, current
EMPTY            PRODUCER_FENCED    aborted again       PRODUCER_FENCED    INVALID_TXN_STATE
COMPLETE_ABORT   already done       aborted again       INVALID_TXN_STATE  INVALID_TXN_STATE
COMPLETE_COMMIT  INVALID_TXN_STATE  aborted again       already done       INVALID_TXN_STATE
"""

from collections.abc import Callable, Sequence, Set
from enum import Enum

from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.transactions import transitions
from kafkad.core.transactions.config import supports_epoch_bump
from kafkad.core.transactions.metadata_cache import TransactionMetadataCache
from kafkad.core.transactions.records import Partition, TransactionRecord
from kafkad.core.transactions.requests import EndTxn, InitProducerId, PartitionResult, PartitionsToAdd
from kafkad.core.transactions.state import NO_EPOCH, TransactionState, is_epoch_exhausted
from kafkad.core.types import LAST_PRODUCER_EPOCH, NO_PRODUCER_ID


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


Results = tuple[PartitionResult, ...]


def rejections(partitions: Sequence[Partition], topics: Topics, closed: Set[str]) -> Results | None:
    """The results if partitions do not exist or are of a `closed` topic; None: all may be added."""
    counts = {topic: topics.partitions_of(topic) or 0 for topic, _ in partitions}
    codes = []
    for topic, index in partitions:
        if topic in closed:
            codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif not 0 <= index < counts[topic]:
            codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            codes.append(ErrorCode.OPERATION_NOT_ATTEMPTED)
    if all(code is ErrorCode.OPERATION_NOT_ATTEMPTED for code in codes):
        return None
    return tuple(PartitionResult(*partition, code) for partition, code in zip(partitions, codes, strict=True))


def same_for_all(partitions: Sequence[Partition], code: ErrorCode) -> Results:
    return tuple(PartitionResult(topic, index, code) for topic, index in partitions)


def verify(cache: TransactionMetadataCache, request: PartitionsToAdd) -> Results:
    """Check that each partition is in the transaction. Raises `KafkaError`."""
    _check_id(request.transactional_id)
    # A pending step does not matter: the log checks again when it appends.
    current = _current(cache, request)
    if current.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    added = frozenset(current.partitions)
    return tuple(
        PartitionResult(*partition, ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE)
        for partition in request.partitions
    )


def record_to_extend(cache: TransactionMetadataCache, request: PartitionsToAdd) -> TransactionRecord | None:
    """The record to which the partitions must be added; None: it has them already. Raises `KafkaError`."""
    _check_id(request.transactional_id)
    if cache.is_pending(request.transactional_id):
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    current = _current(cache, request)
    if current.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is TransactionState.ONGOING and set(request.partitions) <= set(current.partitions):
        return None
    return current


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")


def _current(cache: TransactionMetadataCache, request: PartitionsToAdd) -> TransactionRecord:
    current = cache.get(request.transactional_id)
    if current is None or current.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if current.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return current


State = TransactionState


class EndAction(Enum):
    DECIDE = "decide"
    """Write the decision."""
    NONE = "none"
    """A retry: the same decision was made before, and its response was lost."""


def check_end_txn(current: TransactionRecord, end: EndTxn, *, is_pending: bool) -> EndAction:
    """`is_pending`: a step of this transactional id is pending. Raises `KafkaError`."""
    if supports_epoch_bump(end.client_version):
        return _check_with_epoch_bump(current, end, is_pending=is_pending)
    return _check_without_epoch_bump(current, end, is_pending=is_pending)


def _check_without_epoch_bump(current: TransactionRecord, end: EndTxn, *, is_pending: bool) -> EndAction:
    if end.producer_id != current.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if end.producer_epoch != current.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if is_pending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    match current.state:
        case State.ONGOING:
            return EndAction.DECIDE
        case State.COMPLETE_COMMIT if end.is_commit:
            return EndAction.NONE
        case State.COMPLETE_ABORT if not end.is_commit:
            return EndAction.NONE
    raise _invalid_state(current, end)


def _check_with_epoch_bump(current: TransactionRecord, end: EndTxn, *, is_pending: bool) -> EndAction:
    if is_pending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_rotated = _is_rotated(current, end)
    if end.producer_id != current.producer_id and not is_rotated:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_retry = is_rotated or current.producer_epoch == end.producer_epoch + 1
    if not _has_valid_epoch(current, end, is_retry=is_retry):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    match current.state:
        case State.ONGOING:
            return EndAction.DECIDE
        case State.COMPLETE_COMMIT | State.COMPLETE_ABORT if is_retry and _has_same_decision(current, end):
            return EndAction.NONE
        case State.COMPLETE_COMMIT | State.COMPLETE_ABORT if not is_retry and not end.is_commit:
            return EndAction.DECIDE
        case State.EMPTY if not end.is_commit:
            return EndAction.DECIDE
    raise _invalid_state(current, end)


def _is_rotated(current: TransactionRecord, end: EndTxn) -> bool:
    """Whether this is a retry of the end with the last epoch: the producer id has been rotated since."""
    return (
        current.previous_producer_id == end.producer_id
        and end.producer_epoch == LAST_PRODUCER_EPOCH - 1
        and current.producer_epoch == 0
    )


def _has_valid_epoch(current: TransactionRecord, end: EndTxn, *, is_retry: bool) -> bool:
    is_current = end.producer_epoch == current.producer_epoch
    match current.state:
        case State.ONGOING | State.EMPTY:
            return is_current
        case State.COMPLETE_COMMIT | State.COMPLETE_ABORT:
            return is_retry or is_current
    return is_retry


def _has_same_decision(current: TransactionRecord, end: EndTxn) -> bool:
    return (current.state is State.COMPLETE_COMMIT) == end.is_commit


def _invalid_state(current: TransactionRecord, end: EndTxn) -> KafkaError:
    """The error for the state; CONCURRENT_TRANSACTIONS for a prepared transaction with the same decision."""
    if current.state.is_prepared and (current.state is State.PREPARE_COMMIT) == end.is_commit:
        return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    decision = "commit" if end.is_commit else "abort"
    return KafkaError(ErrorCode.INVALID_TXN_STATE, f"{decision} in {current.state.kafka_name}")
