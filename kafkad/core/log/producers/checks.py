"""May this batch or marker follow what the producer has written so far?

Apache Kafka's rules and error codes, in its order. Nothing is changed here; a refusal is raised as a `KafkaError`.
`entry` is None for an unknown producer, which may have expired; `where` is the partition, for error messages.
"""

from typing import Final

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.producers.entry import NO_PRODUCER_EPOCH, ProducerEntry
from kafkad.core.log.producers.verification import Verification
from kafkad.core.log.records.batch import TRANSACTIONAL_FLAG, BatchHeader
from kafkad.core.types import LAST_PRODUCER_EPOCH

EPOCH_BUMPING: Final = 2
"""The transaction version from which on a marker carries the epoch after that of its transaction (KIP-890)."""


def check_producer_epoch(where: object, entry: ProducerEntry | None, producer_id: int, producer_epoch: int) -> None:
    if entry is not None and producer_epoch < entry.producer_epoch:
        raise refusal(
            where,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            producer_id,
            f"epoch {producer_epoch} is over, epoch {entry.producer_epoch} was seen",
        )


def check_open_transaction(
    where: object, entry: ProducerEntry | None, header: BatchHeader, *, is_verified: bool
) -> None:
    """The coordinator must know that the transaction of a transactional batch includes this partition."""
    if entry is not None and entry.has_open_transaction(header.producer_epoch):
        return
    check_producer_epoch(where, entry, header.producer_id, header.producer_epoch)
    if not is_verified:
        raise refusal(where, ErrorCode.INVALID_TXN_STATE, header.producer_id, "the batch is in no ongoing transaction")


def check_sequence(
    where: object, entry: ProducerEntry | None, header: BatchHeader, verification: Verification | None
) -> None:
    """Epoch and sequence of a client's batch that is not a repetition."""
    check_producer_epoch(where, entry, header.producer_id, header.producer_epoch)
    if verification is not None:
        _check_lowest_sequence(where, entry, header, verification)
    if entry is None or entry.producer_epoch == NO_PRODUCER_EPOCH:
        # No state, perhaps because it expired or its records were deleted: any sequence may start.
        return
    sequence = header.base_sequence
    if header.producer_epoch != entry.producer_epoch:
        if sequence != 0:
            raise _out_of_order(
                where,
                header,
                f"epoch {header.producer_epoch} must begin at sequence 0, found {sequence} "
                f"(epoch {entry.producer_epoch} was seen)",
            )
        return
    if sequence != entry.next_sequence:
        raise _out_of_order(where, header, f"expected sequence {entry.next_sequence}, found {sequence}")


def check_kind(where: object, entry: ProducerEntry | None, header: BatchHeader) -> None:
    """Only transactional batches are accepted until the transaction has ended."""
    if entry is None or entry.current_txn_first_offset is None or header.attributes & TRANSACTIONAL_FLAG:
        return
    raise refusal(
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
    """May the coordinator end the producer's transaction with this marker?

    With transaction version 2 the marker's epoch must be a new one, unless the marker is a repetition: then no
    transaction is open, or the epochs are used up.
    """
    if entry is None:
        return
    if transaction_version >= EPOCH_BUMPING and producer_epoch == entry.producer_epoch:
        is_repeated = entry.current_txn_first_offset is None or producer_epoch == LAST_PRODUCER_EPOCH
        if not is_repeated:
            raise refusal(
                where,
                ErrorCode.INVALID_PRODUCER_EPOCH,
                producer_id,
                f"the marker of the transaction from {entry.current_txn_first_offset} must have an epoch "
                f"above {producer_epoch}",
            )
    check_producer_epoch(where, entry, producer_id, producer_epoch)
    if coordinator_epoch < entry.coordinator_epoch:
        raise refusal(
            where,
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            producer_id,
            f"coordinator epoch {coordinator_epoch} is over, {entry.coordinator_epoch} was seen",
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
            where, header, f"sequence {sequence} must wait for {verification.lowest_sequence}, which was seen first"
        )


def _out_of_order(where: object, header: BatchHeader, reason: str) -> KafkaError:
    return refusal(where, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, header.producer_id, reason)


def refusal(where: object, code: ErrorCode, producer_id: int, reason: str) -> KafkaError:
    return KafkaError(code, f"Producer {producer_id} in {where}: {reason}")
