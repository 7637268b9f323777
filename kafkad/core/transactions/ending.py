"""May this EndTxn end the transaction? The rules before and since transaction version 2.

Before version 2 an end does not change the epoch, and the state decides. Since then every end bumps the epoch, so a
retry has the previous epoch:

                 abort, retry       abort, current      commit, retry      commit, current
EMPTY            PRODUCER_FENCED    aborted again       PRODUCER_FENCED    INVALID_TXN_STATE
COMPLETE_ABORT   already done       aborted again       INVALID_TXN_STATE  INVALID_TXN_STATE
COMPLETE_COMMIT  INVALID_TXN_STATE  aborted again       already done       INVALID_TXN_STATE
"""

from enum import Enum

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.transactions.config import supports_epoch_bump
from kafkad.core.transactions.records import TransactionRecord
from kafkad.core.transactions.requests import EndTxn
from kafkad.core.transactions.state import TransactionState
from kafkad.core.types import LAST_PRODUCER_EPOCH

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
