"""The records of `__transaction_state`: the whole state of one transactional id, or its tombstone.

The newest record of an id is its complete state. `wire/records/transaction_records.py` encodes the records.
"""

from dataclasses import dataclass, field

from kafkad.core.transactions.state import NO_EPOCH, TransactionState
from kafkad.core.types import NO_PRODUCER_ID, NO_TIMESTAMP

Partition = tuple[str, int]
"""Topic and index. A plain tuple for speed: a transaction may have thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """Kafka's TransactionLogValue with its key."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    """The time when the first partition was added."""
    partitions: tuple[Partition, ...] = ()
    """In the order of the log."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id of the previous record; retries still send it after a rotation."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the completion, if the epochs of the current one are exhausted."""
    client_transaction_version: int = 0
    value_version: int = 1
    """The version of the encoded value."""
    last_producer_epoch: int = field(default=NO_EPOCH, compare=False)
    """The epoch before the last bump, for retries. Not in the log, and so lost when a coordinator loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRemoved:
    """The tombstone of a transactional id that has expired."""

    transactional_id: str


AnyTransactionRecord = TransactionRecord | TransactionRemoved
