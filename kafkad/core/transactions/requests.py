"""Requests to a transaction coordinator and its replies as plain values, independent of API versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.records import Partition
from kafkad.core.transactions.state import NO_EPOCH
from kafkad.core.types import NO_PRODUCER_ID


class InitProducerId(NamedTuple):
    transactional_id: str | None
    """None: the producer is idempotent only."""
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """The producer's current id and epoch (version 3); -1 for a new producer."""
    producer_epoch: int = NO_EPOCH


class PartitionsToAdd(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[Partition, ...]
    verify_only: bool = False


class PartitionsToVerify(NamedTuple):
    """Partitions to verify in the producer's transaction (KIP-890). With `adds` missing ones are added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    partitions: Sequence[tuple[str, int]]


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
    """The transaction version of the client: 2 with EndTxn 5, else 0."""


class TransactionFilter(NamedTuple):
    """The filters of ListTransactions; an empty one matches all."""

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    duration_ms: int = -1
    """Only transactions that are open for longer; negative: all."""
    pattern: str | None = None
    """A pattern for the whole transactional id."""


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
    """One row for each transaction in the request, in its order."""

    transactions: tuple[tuple[str, tuple[PartitionResult, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAdded:
    code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """With transaction version 2 the producer continues with this id and epoch."""

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
