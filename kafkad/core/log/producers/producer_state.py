"""Is this batch new, a duplicate, or out of order for its producer? Which transactions are open?

Kafka's producer state: per producer id the epoch, the last five batches and the open transaction. The `check` methods
decide and change nothing; `record_append` and `replay` change and never fail. `snapshot` reads and writes snapshot
files; the coordinator decides transactions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kafkad.core.errors import ErrorCode
from kafkad.core.log.producers.checks import (
    check_end_marker,
    check_kind,
    check_open_transaction,
    check_producer_epoch,
    check_sequence,
    rejection,
)
from kafkad.core.log.producers.entry import Appended, Duplicate, ProducerEntry
from kafkad.core.log.producers.open_transactions import OpenTransactions
from kafkad.core.log.producers.verification import NO_GUARD, Verifications
from kafkad.core.log.records.batch import TRANSACTIONAL_FLAG, BatchHeader
from kafkad.core.log.segments.transaction_index import AbortedTransaction
from kafkad.core.types import LogPosition


class Accept:
    """The batch may be appended."""

    __slots__ = ()


ACCEPT: Final = Accept()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMarker:
    """The control record that ends a producer's transaction in this partition."""

    commit: bool
    coordinator_epoch: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerStates:
    """All producers of one partition."""

    def __init__(
        self, partition: object, *, expiration_ms: int = 86_400_000, verifies_transactions: bool = True
    ) -> None:
        """`partition` appears only in messages; `expiration_ms` is `producer.id.expiration.ms`,
        `verifies_transactions` is `transaction.partition.verification.enable`."""
        self._partition = partition
        self.expiration_ms = expiration_ms
        self.verifies_transactions = verifies_transactions
        self._entries: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self.verifications = Verifications()

    def check(self, header: BatchHeader, guard: int | None = None) -> Duplicate | Accept:
        """Check a client's batch without any change; raises `KafkaError` for a rejected one.

        `guard` comes from `begin_verification`; None if the request has no transactional id.
        """
        producer_id = header.producer_id
        is_transactional = header.attributes & TRANSACTIONAL_FLAG
        if is_transactional and guard is None:
            raise rejection(
                self._partition,
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                producer_id,
                "a transactional batch requires a request with a transactional id",
            )
        if producer_id < 0:
            return ACCEPT
        entry = self._entries.get(producer_id)
        if entry is not None and header.producer_epoch == entry.producer_epoch:
            is_plain = not is_transactional and entry.current_txn_first_offset is None
            if is_plain and header.base_sequence == entry.next_sequence and not self.verifications.by_producer:
                # Usual case: the next batch of an idempotent producer, no duplicate.
                return ACCEPT
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        if is_transactional:
            self._check_transaction(entry, header, guard or NO_GUARD)
        check_sequence(self._partition, entry, header, self.verifications.by_producer.get(producer_id))
        check_kind(self._partition, entry, header)
        return ACCEPT

    def check_coordinated(self, header: BatchHeader, guard: int = NO_GUARD) -> None:
        """As `check`, for a group coordinator's batch in a producer's transaction: no sequences."""
        entry = self._entries.get(header.producer_id)
        if header.attributes & TRANSACTIONAL_FLAG:
            self._check_transaction(entry, header, guard)
        check_producer_epoch(self._partition, entry, header.producer_id, header.producer_epoch)
        check_kind(self._partition, entry, header)

    def _check_transaction(self, entry: ProducerEntry | None, header: BatchHeader, guard: int) -> None:
        is_verified = not self.verifies_transactions or self.verifications.holds(header.producer_id, guard)
        check_open_transaction(self._partition, entry, header, is_verified=is_verified)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> int:
        """The guard of a verification, if the coordinator must verify the transaction before the append; NO_GUARD if
        the transaction is already open in this partition. Raises `KafkaError` for a fenced epoch.
        """
        entry = self._entries.get(producer_id)
        check_producer_epoch(self._partition, entry, producer_id, producer_epoch)
        if entry is not None and entry.has_open_transaction(producer_epoch):
            return NO_GUARD
        return self.verifications.begin(
            producer_id, producer_epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump
        )

    def check_end_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Check a marker without any change; raises `KafkaError` for a rejected one."""
        entry = self._entries.get(producer_id)
        check_end_marker(self._partition, entry, producer_id, producer_epoch, coordinator_epoch, transaction_version)

    def record_append(self, header: BatchHeader, base_offset: int, position: LogPosition | None = None) -> None:
        """The batch is in the log at `base_offset`; `header` has its final timestamps."""
        producer_id = header.producer_id
        if producer_id < 0:
            return
        entry = self._entry(producer_id)
        if header.producer_epoch != entry.producer_epoch:
            entry.move_to_epoch(header.producer_epoch)
        delta, timestamp = header.last_offset_delta, header.max_timestamp
        entry.appended(Appended(header.last_sequence, base_offset + delta, delta, timestamp))
        entry.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL_FLAG:
            self.verifications.written(producer_id)
            if entry.current_txn_first_offset is None:
                entry.current_txn_first_offset = base_offset
                self.transactions.begin(base_offset, producer_id, position)

    def replay(
        self, header: BatchHeader, marker: EndMarker | None = None, segment_base: int = 0
    ) -> CompletedTransaction | None:
        """Apply a batch of the log (recovery, replication), without checks.

        `marker` is the record of a control batch, None if compaction has removed the record. `segment_base` is the
        base offset of its segment.
        """
        if header.producer_id < 0:
            return None
        if not header.is_control:
            self.record_append(header, header.base_offset)
            return None
        if marker is None:
            return None
        return self.record_end_marker(header, marker, header.base_offset, segment_base)

    def aborted_by(self, producer_id: int, marker: EndMarker, offset: int) -> AbortedTransaction | None:
        """The index entry for this marker at `offset`; None if it aborts no record."""
        entry = self._entries.get(producer_id)
        if marker.commit or entry is None or entry.current_txn_first_offset is None:
            return None
        others = self.transactions.first_open_of_others(producer_id)
        last_stable_offset = offset + 1 if others is None else others
        return AbortedTransaction(producer_id, entry.current_txn_first_offset, offset, last_stable_offset)

    def record_end_marker(
        self, header: BatchHeader, marker: EndMarker, offset: int, segment_base: int = 0
    ) -> CompletedTransaction | None:
        """Record a marker at `offset`, in the segment with base offset `segment_base`; return the transaction that it
        ends, if that has records.
        """
        entry = self._entry(header.producer_id)
        first_offset = entry.current_txn_first_offset
        entry.move_to_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = marker.timestamp
        entry.current_txn_first_offset = None
        self.verifications.ended(header.producer_id, header.producer_epoch)
        if first_offset is None:
            return None
        self.transactions.complete(first_offset, offset)
        if first_offset < segment_base:
            self.transactions.ended_in_later_segment(first_offset, offset)
        return CompletedTransaction(
            producer_id=header.producer_id,
            first_offset=first_offset,
            last_offset=offset,
            aborted=not marker.commit,
        )

    def load(self, entries: Iterable[ProducerEntry], now_ms: int) -> None:
        """Replace the state by a snapshot's entries, without expired ones."""
        self.truncate_full()
        for entry in entries:
            if not self._is_expired(entry, now_ms):
                self._entries[entry.producer_id] = entry
        open_entries = [e for e in self._entries.values() if e.current_txn_first_offset is not None]
        for entry in sorted(open_entries, key=lambda e: e.current_txn_first_offset or 0):
            self.transactions.begin(entry.current_txn_first_offset or 0, entry.producer_id)

    def truncate_full(self) -> None:
        self._entries.clear()
        self.transactions.clear()
        self.verifications.clear()

    def remove_expired(self, now_ms: int) -> int:
        """Remove producers without writes for `producer.id.expiration.ms`; return their number.

        Producers with an open transaction stay: their marker needs the state.
        """
        self.verifications.remove_expired(now_ms, self.expiration_ms)
        expired = [entry.producer_id for entry in self._entries.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    @property
    def may_expire(self) -> bool:
        """Whether `remove_expired` may have producers to remove later."""
        return bool(self._entries or self.verifications.by_producer)

    def active(self) -> Iterator[ProducerEntry]:
        """All producers (DescribeProducers, snapshots)."""
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def __len__(self) -> int:
        return len(self._entries)

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        return entry

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        idle = now_ms - entry.last_timestamp >= self.expiration_ms
        return idle and entry.current_txn_first_offset is None
