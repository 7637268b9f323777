"""The record of a transactional id after each step.

Other modules check whether the step is allowed. Every record has the producer id of the previous record.
"""

from collections.abc import Iterable
from dataclasses import replace

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.transactions.config import supports_epoch_bump
from kafkad.core.transactions.records import Partition, TransactionRecord
from kafkad.core.transactions.state import NO_EPOCH, TransactionState, is_epoch_exhausted
from kafkad.core.types import LAST_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP


def created(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """A new transactional id, before its first epoch."""
    return TransactionRecord(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=NO_EPOCH,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        last_update_ms=now_ms,
    )


def initialized(
    current: TransactionRecord, timeout_ms: int, expected_epoch: int | None, now_ms: int
) -> TransactionRecord:
    """A producer starts with the next epoch, or repeats a request with lost response (KIP-360). Raises `KafkaError`."""
    if is_epoch_exhausted(current.producer_epoch):
        # Only a retry with a very old epoch; Apache Kafka returns this code too.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the epochs of producer {current.producer_id} are exhausted")
    bumped = current.producer_epoch + 1
    if expected_epoch is None:
        epoch, last_epoch = bumped, NO_EPOCH
    elif current.producer_epoch in (NO_EPOCH, expected_epoch):
        epoch, last_epoch = bumped, current.producer_epoch
    elif expected_epoch == current.last_producer_epoch:
        epoch, last_epoch = current.producer_epoch, current.last_producer_epoch
    else:
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"epoch {expected_epoch} is fenced by {current.producer_epoch}")
    return _with_epoch(current, current.producer_id, epoch, last_epoch, timeout_ms, now_ms)


def rotated(
    current: TransactionRecord, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_epoch: bool
) -> TransactionRecord:
    """A producer with exhausted epochs starts with a new producer id."""
    last_epoch = current.producer_epoch if keeps_epoch else NO_EPOCH
    return _with_epoch(current, producer_id, 0, last_epoch, timeout_ms, now_ms)


def _with_epoch(
    current: TransactionRecord, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionRecord:
    return replace(
        current,
        producer_id=producer_id,
        previous_producer_id=current.producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
    )


def joined(
    current: TransactionRecord, partitions: Iterable[Partition], client_version: int, now_ms: int
) -> TransactionRecord:
    """Partitions are added; the first ones start the transaction."""
    is_first = current.state is not TransactionState.ONGOING
    return replace(
        current,
        previous_producer_id=current.producer_id,
        state=TransactionState.ONGOING,
        partitions=tuple(dict.fromkeys((*current.partitions, *partitions))),
        start_ms=now_ms if is_first else current.start_ms,
        last_update_ms=now_ms,
        client_transaction_version=client_version,
    )


def fenced_epoch(current: TransactionRecord, *, has_failed_fence: bool) -> int:
    """The epoch that fences the producer; an earlier failed attempt has bumped it already."""
    is_last = current.producer_epoch == LAST_PRODUCER_EPOCH
    return current.producer_epoch if has_failed_fence or is_last else current.producer_epoch + 1


def fenced(current: TransactionRecord, *, has_failed_fence: bool) -> TransactionRecord:
    """The record with the fencing epoch for a coordinator's abort before transaction version 2; since then each end
    bumps the epoch."""
    epoch = fenced_epoch(current, has_failed_fence=has_failed_fence)
    return replace(current, producer_epoch=epoch, last_producer_epoch=NO_EPOCH)


def prepared(
    current: TransactionRecord,
    state: TransactionState,
    client_version: int,
    next_producer_id: int,
    now_ms: int,
) -> TransactionRecord:
    """The decision. With transaction version 2 markers have the next epoch, which fences late writes."""
    epoch, last_epoch = current.producer_epoch, current.last_producer_epoch
    if supports_epoch_bump(client_version):
        last_epoch = epoch
        if not (epoch == LAST_PRODUCER_EPOCH and state is TransactionState.PREPARE_ABORT):
            epoch += 1
    was_open = current.state is TransactionState.ONGOING
    return replace(
        current,
        previous_producer_id=current.producer_id,
        next_producer_id=next_producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        state=state,
        # An abort without an open transaction has no start time, but the record requires one.
        start_ms=current.start_ms if was_open else now_ms,
        last_update_ms=now_ms,
        client_transaction_version=client_version,
    )


def completed(current: TransactionRecord, now_ms: int) -> TransactionRecord:
    """All markers are written; a producer with exhausted epochs continues with its next id."""
    rotates = supports_epoch_bump(current.client_transaction_version) and current.next_producer_id != NO_PRODUCER_ID
    return replace(
        current,
        producer_id=current.next_producer_id if rotates else current.producer_id,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=0 if rotates else current.producer_epoch,
        state=current.state.completed,
        partitions=(),
        last_update_ms=now_ms,
    )
