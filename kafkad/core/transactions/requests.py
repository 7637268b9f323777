"""What is asked of a transaction coordinator and what it answers: plain values, whatever the version of the request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.records import Partition
from kafkad.core.transactions.state import NO_EPOCH
from kafkad.core.types import NO_PRODUCER_ID


class InitProducerId(NamedTuple):
    transactional_id: str | None
    """None: the producer is only idempotent."""
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """What the producer had until now (version 3); -1 when it has just started."""
    producer_epoch: int = NO_EPOCH


class PartitionsToAdd(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[Partition, ...]
    verify_only: bool = False


class OffsetsToAdd(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


class EndTxn(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int
    """The transaction version that the client speaks: 2 with EndTxn 5, else 0."""


class TransactionFilter(NamedTuple):
    """What ListTransactions asks for; an empty filter lets everything pass."""

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    duration_ms: int = -1
    """Only transactions open for longer; negative: all."""
    pattern: str | None = None
    """Of the whole transactional id."""


class PartitionResult(NamedTuple):
    topic: str
    partition: int
    code: ErrorCode


# Replies. Frozen like every value that leaves the coordinator.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInitialized:
    code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAdded:
    """One row for each transaction that was asked about, in the order of the request."""

    transactions: tuple[tuple[str, tuple[PartitionResult, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAdded:
    code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """With transaction version 2 the producer goes on with the id and epoch that are in here."""

    code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    transactional_id: str
    code: ErrorCode = ErrorCode.NONE
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsDescribed:
    transactions: tuple[TransactionDescription, ...]


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsListed:
    code: ErrorCode = ErrorCode.NONE
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[ListedTransaction, ...] = ()
