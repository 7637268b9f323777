"""Does the transaction of a TxnOffsetCommit include the offsets of its group?

The transaction coordinator is asked before the first commit of a transaction, as before the first records in any
other partition (KIP-890). From version 5 on, that question also adds the partition to the transaction.
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
"""Older clients don't know TRANSACTION_ABORTABLE."""
ADDS_FROM = 5
"""From this version of TxnOffsetCommit on clients don't send AddOffsetsToTxn first (transaction version 2)."""


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
        refuse: Callable[[ErrorCode], None],
    ) -> None:
        """`proceed` gets the guard with which the commit may be appended; either it or `refuse` is called, now or
        later.
        """
        if owned.log is None:
            refuse(ErrorCode.NOT_COORDINATOR)
            return
        if not any(
            self._transaction_verification.is_there(topic.name, row.partition_index) for topic, row in _rows(request)
        ):
            # Nothing will be appended: each row gets that error, whatever the transaction is.
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
            refuse(error.code)
            return
        if guard == NO_GUARD:
            proceed(guard)
            return

        def answered(codes: list[ErrorCode]) -> None:
            if codes[0] == ErrorCode.NONE:
                proceed(guard)
            else:
                refuse(_told(codes[0], version))

        partition = (owned.name.topic, owned.name.partition)
        producer = (request.producer_id, request.producer_epoch)
        asked = PartitionsToVerify(request.transactional_id, *producer, adds, [partition])
        self._transaction_verification.ask(asked, answered)


def _rows(request: Any) -> Iterator[tuple[Any, Any]]:
    return ((topic, row) for topic in request.topics for row in topic.partitions)


def _told(code: ErrorCode, version: int) -> ErrorCode:
    """The code that clients of this version understand."""
    match code:
        case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE:
            # The transaction's coordinator has moved, not the group's, so the client need not look for another.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case ErrorCode.CONCURRENT_TRANSACTIONS if version < ADDS_FROM:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if version < ABORTABLE_FROM:
            return ErrorCode.INVALID_TXN_STATE
    return code
