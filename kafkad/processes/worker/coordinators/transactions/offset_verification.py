"""Verifies that the transaction of a TxnOffsetCommit includes the offsets of its group.

The transaction coordinator verifies the first commit of a transaction, as the first records in any other partition
(KIP-890). From version 5 on, the verification also adds the partition to the transaction.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.producers.verification import NO_GUARD
from kafkad.core.transactions.requests import PartitionsToVerify
from kafkad.core.types import NO_SEQUENCE
from kafkad.processes.worker.coordinators.transactions.transaction_verification import TransactionVerification
from kafkad.processes.worker.owned import OwnedPartition

ABORTABLE_FROM = 4
"""Older clients do not support TRANSACTION_ABORTABLE."""
ADDS_FROM = 5
"""From this version of TxnOffsetCommit on, clients send no AddOffsetsToTxn (transaction version 2)."""


class OffsetVerifications:
    """See `OffsetVerification`."""

    def __init__(self, transaction_verification: TransactionVerification) -> None:
        self._transaction_verification = transaction_verification

    def verify(
        self,
        owned: OwnedPartition,
        request: Any,
        version: int,
        proceed: Callable[[int], None],
        reject: Callable[[ErrorCode], None],
    ) -> None:
        """Either `proceed`, with the guard for the append, or `reject` is called, now or later."""
        if owned.log is None:
            reject(ErrorCode.NOT_COORDINATOR)
            return
        if not any(
            self._transaction_verification.has_partition(topic.name, row.partition_index)
            for topic, row in _rows(request)
        ):
            # Nothing will be appended: each row gets an error, whatever the state of the transaction.
            proceed(NO_GUARD)
            return
        adds = version >= ADDS_FROM
        if not adds and not owned.log.producers.verifies_transactions:
            proceed(NO_GUARD)
            return
        try:
            guard = owned.log.producers.begin_verification(
                request.producer_id,
                request.producer_epoch,
                NO_SEQUENCE,
                wall_clock_ms(),
                supports_epoch_bump=adds,
            )
        except KafkaError as error:
            reject(error.code)
            return
        if guard == NO_GUARD:
            proceed(guard)
            return

        def completed(codes: list[ErrorCode]) -> None:
            if codes[0] == ErrorCode.NONE:
                proceed(guard)
            else:
                reject(_code_for(codes[0], version))

        partition = (owned.name.topic, owned.name.partition)
        producer = (request.producer_id, request.producer_epoch)
        requested = PartitionsToVerify(request.transactional_id, *producer, adds, [partition])
        self._transaction_verification.verify(requested, completed)


def _rows(request: Any) -> Iterator[tuple[Any, Any]]:
    return ((topic, row) for topic in request.topics for row in topic.partitions)


def _code_for(code: ErrorCode, version: int) -> ErrorCode:
    """The error code for clients of this version."""
    match code:
        case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE:
            # The transaction's coordinator has moved, not the group's: the client must not search another one.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case ErrorCode.CONCURRENT_TRANSACTIONS if version < ADDS_FROM:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if version < ABORTABLE_FROM:
            return ErrorCode.INVALID_TXN_STATE
    return code
