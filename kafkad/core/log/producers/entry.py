"""The state of one producer id in one partition: epoch, last five batches, open transaction."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkad.core.log.records.batch import MAX_SEQUENCE, BatchHeader
from kafkad.core.types import NO_SEQUENCE, NO_TIMESTAMP

RETAINED_BATCHES: Final = 5
"""Clients may have five requests in flight; older duplicates are not distinguishable from gaps."""
NO_PRODUCER_EPOCH: Final = -1
NO_COORDINATOR_EPOCH: Final = -1


class Appended(NamedTuple):
    """A batch in the log. A tuple for speed: each batch of an idempotent producer makes one."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        if self.last_sequence < 0:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """The batch is already in the log: the reply repeats that of the first append."""

    base_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """The state of one producer id; mutable and slotted, since each append touches it."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        *,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int | None = None,
        batches: Iterable[Appended] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = tuple(batches)[-RETAINED_BATCHES:]
        """A tuple: an empty deque alone takes 760 bytes, and a client may use any number of producer ids."""

    def appended(self, batch: Appended) -> None:
        self.batches = (*self.batches[1 - RETAINED_BATCHES :], batch)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def next_sequence(self) -> int:
        return (self.batches[-1].last_sequence + 1) & MAX_SEQUENCE if self.batches else 0

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def move_to_epoch(self, producer_epoch: int) -> None:
        """Drop batches of other epochs: sequences restart at 0 with each epoch."""
        if producer_epoch != self.producer_epoch:
            self.batches = ()
            self.producer_epoch = producer_epoch

    def find_duplicate(self, header: BatchHeader) -> Duplicate | None:
        """The batch of the current epoch with exactly these sequences, if it is among the last five."""
        last, delta = header.last_sequence, header.last_offset_delta
        for batch in self.batches:
            if batch.last_sequence == last and batch.offset_delta == delta:
                return Duplicate(
                    base_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    timestamp=batch.timestamp,
                )
        return None

    def has_open_transaction(self, producer_epoch: int) -> bool:
        """Whether this producer epoch has an open transaction."""
        return self.current_txn_first_offset is not None and self.producer_epoch == producer_epoch
