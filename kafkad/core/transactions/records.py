"""The records of `__transaction_state`: the whole state of one transactional id, or its tombstone.

A value is complete in itself: the newest record of an id is its state. `wire/records/transaction_records.py` makes the
bytes.
"""

from dataclasses import dataclass, field

from kafkad.core.transactions.state import NO_EPOCH, TransactionState
from kafkad.core.types import NO_PRODUCER_ID, NO_TIMESTAMP

Partition = tuple[str, int]
"""Topic and index. A plain pair: a transaction may have thousands, and they are compared and hashed all the time."""


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
    """When the first partition joined."""
    partitions: tuple[Partition, ...] = ()
    """In the order in which they are in the log."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before this record; after a rotation a retry still sends it."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the transaction completes, if the epochs of the present one are used up."""
    client_transaction_version: int = 0
    value_version: int = 1
    """The version of the value's bytes."""
    last_producer_epoch: int = field(default=NO_EPOCH, compare=False)
    """The epoch before the last bump, for retries. Not in the log: a coordinator that loads has forgotten it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRemoved:
    """The tombstone of a transactional id that has expired."""

    transactional_id: str


AnyTransactionRecord = TransactionRecord | TransactionRemoved
