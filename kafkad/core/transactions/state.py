"""The states of a transaction, and their valid successors (KIP-98; the numbers are those of the log)."""

from enum import IntEnum

from kafkad.core.types import LAST_PRODUCER_EPOCH

NO_EPOCH = -1


class TransactionState(IntEnum):
    """The log never has the last two: DEAD is a tombstone, PREPARE_EPOCH_FENCE becomes PREPARE_ABORT at once."""

    EMPTY = 0
    """No transaction since the producer started: → ONGOING, with transaction version 2 PREPARE_ABORT; may expire."""
    ONGOING = 1
    """The transaction has partitions: → PREPARE_COMMIT, PREPARE_ABORT."""
    PREPARE_COMMIT = 2
    """Decided, markers are being written: → COMPLETE_COMMIT only."""
    PREPARE_ABORT = 3
    """Decided, markers are being written: → COMPLETE_ABORT only."""
    COMPLETE_COMMIT = 4
    """Every marker is in its log: → EMPTY, ONGOING, PREPARE_ABORT (version 2); may expire."""
    COMPLETE_ABORT = 5
    """Like COMPLETE_COMMIT."""
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The name in DescribeTransactions and ListTransactions."""
        return _NAMES[self]

    @property
    def is_prepared(self) -> bool:
        return self is TransactionState.PREPARE_COMMIT or self is TransactionState.PREPARE_ABORT

    @property
    def may_expire(self) -> bool:
        return self in _IDLE

    @property
    def completed(self) -> "TransactionState":
        """The state after a prepared one, when its markers are written."""
        assert self.is_prepared
        return (
            TransactionState.COMPLETE_COMMIT
            if self is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT
        )


_IDLE = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_NAMES = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATES_BY_NAME = {name: state for state, name in _NAMES.items()}


def is_epoch_exhausted(epoch: int) -> bool:
    """No producer gets the last epoch, so that the coordinator can always fence once more."""
    return epoch >= LAST_PRODUCER_EPOCH - 1
