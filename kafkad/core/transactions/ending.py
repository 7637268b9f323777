"""May this EndTxn end the transaction? The rules before and since transaction version 2.

Before version 2 an end does not change the epoch, and the state decides. Since then every end bumps the epoch, so a
retry has the epoch before:

                 abort, retry       abort, current      commit, retry      commit, current
EMPTY            PRODUCER_FENCED    aborted anew        PRODUCER_FENCED    INVALID_TXN_STATE
COMPLETE_ABORT   done already       aborted anew        INVALID_TXN_STATE  INVALID_TXN_STATE
COMPLETE_COMMIT  INVALID_TXN_STATE  aborted anew        done already       INVALID_TXN_STATE
"""

from enum import Enum

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.transactions.config import supports_epoch_bump
from kafkad.core.transactions.records import TransactionRecord
from kafkad.core.transactions.requests import EndTxn
from kafkad.core.transactions.state import TransactionState
from kafkad.core.types import LAST_PRODUCER_EPOCH

State = TransactionState


class Verdict(Enum):
    DECIDE = "decide"
    """Write the decision."""
    DONE = "done"
    """The decision is the same as before: the answer was lost."""


def judge(current: TransactionRecord, end: EndTxn, *, is_pending: bool) -> Verdict:
    """`is_pending`: a step of this transactional id is pending. Raises KafkaError."""
    if supports_epoch_bump(end.client_version):
        return _judge_bumping(current, end, is_pending=is_pending)
    return _judge_steady(current, end, is_pending=is_pending)


def _judge_steady(current: TransactionRecord, end: EndTxn, *, is_pending: bool) -> Verdict:
    if end.producer_id != current.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if end.producer_epoch != current.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if is_pending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    match current.state:
        case State.ONGOING:
            return Verdict.DECIDE
        case State.COMPLETE_COMMIT if end.is_commit:
            return Verdict.DONE
        case State.COMPLETE_ABORT if not end.is_commit:
            return Verdict.DONE
    raise _misfit(current, end)


def _judge_bumping(current: TransactionRecord, end: EndTxn, *, is_pending: bool) -> Verdict:
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
            return Verdict.DECIDE
        case State.COMPLETE_COMMIT | State.COMPLETE_ABORT if is_retry and _was_decided_so(current, end):
            return Verdict.DONE
        case State.COMPLETE_COMMIT | State.COMPLETE_ABORT if not is_retry and not end.is_commit:
            return Verdict.DECIDE
        case State.EMPTY if not end.is_commit:
            return Verdict.DECIDE
    raise _misfit(current, end)


def _is_rotated(current: TransactionRecord, end: EndTxn) -> bool:
    """A retry of the end that used up the last epoch: the transactional id has another producer id by now."""
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


def _was_decided_so(current: TransactionRecord, end: EndTxn) -> bool:
    return (current.state is State.COMPLETE_COMMIT) == end.is_commit


def _misfit(current: TransactionRecord, end: EndTxn) -> KafkaError:
    """(A prepared transaction is pending, too, from its decision to its completion.)"""
    if current.state.is_prepared and (current.state is State.PREPARE_COMMIT) == end.is_commit:
        return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    wanted = "commit" if end.is_commit else "abort"
    return KafkaError(ErrorCode.INVALID_TXN_STATE, f"{wanted} in {current.state.kafka_name}")
