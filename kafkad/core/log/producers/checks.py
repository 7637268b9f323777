"""May the producer append this batch or marker after its previous ones?

Apache Kafka's rules and error codes, in its order. The checks change nothing and raise `KafkaError` for a rejection.
`entry` is None for an unknown producer, which may have expired; `where` is the partition, for error messages.
"""

from typing import Final

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.producers.entry import NO_PRODUCER_EPOCH, ProducerEntry
from kafkad.core.log.producers.verification import Verification
from kafkad.core.log.records.batch import TRANSACTIONAL_FLAG, BatchHeader
from kafkad.core.types import LAST_PRODUCER_EPOCH

EPOCH_BUMPING: Final = 2
"""The first transaction version whose markers have the epoch after the transaction's (KIP-890)."""


def check_producer_epoch(where: object, entry: ProducerEntry | None, producer_id: int, producer_epoch: int) -> None:
    if entry is not None and producer_epoch < entry.producer_epoch:
        raise rejection(
            where,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            producer_id,
            f"epoch {producer_epoch} is older than the last seen epoch {entry.producer_epoch}",
        )


def check_open_transaction(
    where: object, entry: ProducerEntry | None, header: BatchHeader, *, is_verified: bool
) -> None:
    """Require a transaction that is open here, or that the coordinator has verified to include this partition."""
    if entry is not None and entry.has_open_transaction(header.producer_epoch):
        return
    check_producer_epoch(where, entry, header.producer_id, header.producer_epoch)
    if not is_verified:
        raise rejection(
            where, ErrorCode.INVALID_TXN_STATE, header.producer_id, "the batch is in no ongoing transaction"
        )


def check_sequence(
    where: object, entry: ProducerEntry | None, header: BatchHeader, verification: Verification | None
) -> None:
    """Check epoch and sequence of a client's batch that is no duplicate."""
    check_producer_epoch(where, entry, header.producer_id, header.producer_epoch)
    if verification is not None:
        _check_lowest_sequence(where, entry, header, verification)
    if entry is None or entry.producer_epoch == NO_PRODUCER_EPOCH:
        # No state, as it expired or its records were deleted: any first sequence is valid.
        return
    sequence = header.base_sequence
    if header.producer_epoch != entry.producer_epoch:
        if sequence != 0:
            raise _out_of_order(
                where,
                header,
                f"epoch {header.producer_epoch} must begin at sequence 0, found {sequence} "
                f"(last seen epoch {entry.producer_epoch})",
            )
        return
    if sequence != entry.next_sequence:
        raise _out_of_order(where, header, f"expected sequence {entry.next_sequence}, found {sequence}")


def check_kind(where: object, entry: ProducerEntry | None, header: BatchHeader) -> None:
    """Only transactional batches are accepted until the transaction has ended."""
    if entry is None or entry.current_txn_first_offset is None or header.attributes & TRANSACTIONAL_FLAG:
        return
    raise rejection(
        where,
        ErrorCode.INVALID_TXN_STATE,
        header.producer_id,
        f"its transaction from offset {entry.current_txn_first_offset} is open, the batch is not transactional",
    )


def check_end_marker(
    where: object,
    entry: ProducerEntry | None,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
) -> None:
    """Check the coordinator's marker for the producer's transaction.

    With transaction version 2 a marker has a new epoch, unless it is a duplicate: then no transaction is open, or the
    last epoch is in use.
    """
    if entry is None:
        return
    if transaction_version >= EPOCH_BUMPING and producer_epoch == entry.producer_epoch:
        is_duplicate = entry.current_txn_first_offset is None or producer_epoch == LAST_PRODUCER_EPOCH
        if not is_duplicate:
            raise rejection(
                where,
                ErrorCode.INVALID_PRODUCER_EPOCH,
                producer_id,
                f"the marker of the transaction from {entry.current_txn_first_offset} must have an epoch "
                f"above {producer_epoch}",
            )
    check_producer_epoch(where, entry, producer_id, producer_epoch)
    if coordinator_epoch < entry.coordinator_epoch:
        raise rejection(
            where,
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            producer_id,
            f"coordinator epoch {coordinator_epoch} is older than the last seen {entry.coordinator_epoch}",
        )


def _check_lowest_sequence(
    where: object, entry: ProducerEntry | None, header: BatchHeader, verification: Verification
) -> None:
    sequence = header.base_sequence
    is_first = entry is None or not entry.batches
    if verification.supports_epoch_bump and sequence != 0 and is_first:
        raise _out_of_order(where, header, f"its first batch must have sequence 0, found {sequence}")
    if sequence > verification.lowest_sequence:
        raise _out_of_order(
            where, header, f"sequence {sequence} must wait for {verification.lowest_sequence}, which was sent first"
        )


def _out_of_order(where: object, header: BatchHeader, reason: str) -> KafkaError:
    return rejection(where, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, header.producer_id, reason)


def rejection(where: object, code: ErrorCode, producer_id: int, reason: str) -> KafkaError:
    return KafkaError(code, f"Producer {producer_id} in {where}: {reason}")
