"""The state of every transactional id of one partition: its newest record, and its pending step.

Only replay adds records. A restart drops pending steps, their progress, and a fence that could not be written.

Unused ids expire (transactional.id.expiration.ms). The scan runs at an interval, like Apache Kafka's. Ids are ordered
by their last use, so a scan costs only as much as it finds.
"""

from collections.abc import Iterator

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.config import TransactionConfig
from kafkad.core.transactions.records import AnyTransactionRecord, TransactionRecord, TransactionRemoved
from kafkad.core.transactions.state import TransactionState


class TransactionMetadataCache:
    """The state of the shard; mutable. An id has one pending step, which rejects other requests meanwhile."""

    def __init__(self) -> None:
        # Ordered by their newest records, oldest first: the ids that expire next are at the front.
        self._records: dict[str, TransactionRecord] = {}
        self._pending: dict[str, TransactionState] = {}
        self._failed_fences: dict[str, TransactionRecord] = {}
        self._marked: dict[str, frozenset[tuple[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def replay(self, record: AnyTransactionRecord) -> None:
        transactional_id = record.transactional_id
        self._records.pop(transactional_id, None)
        self._failed_fences.pop(transactional_id, None)
        self._marked.pop(transactional_id, None)
        if isinstance(record, TransactionRecord):
            self._records[transactional_id] = record

    def get(self, transactional_id: str) -> TransactionRecord | None:
        """The newest record, or the fencing record after a failed write of it."""
        return self._failed_fences.get(transactional_id) or self._records.get(transactional_id)

    def oldest_first(self) -> Iterator[TransactionRecord]:
        return iter(self._records.values())

    def is_pending(self, transactional_id: str) -> bool:
        return transactional_id in self._pending

    def pending(self, transactional_id: str) -> TransactionState | None:
        return self._pending.get(transactional_id)

    def begin(self, transactional_id: str, state: TransactionState) -> None:
        """Set the pending step towards `state`."""
        self._pending[transactional_id] = state

    def settle(self, transactional_id: str) -> None:
        """End the pending step, successful or not."""
        self._pending.pop(transactional_id, None)

    def is_written(self, record: TransactionRecord) -> bool:
        """Whether this record object is in the log, committed or not."""
        return self._records.get(record.transactional_id) is record

    def add_failed_fence(self, record: TransactionRecord) -> None:
        """Keep a fencing record that could not be written: the previous epoch stays fenced."""
        self._failed_fences[record.transactional_id] = record

    def has_failed_fence(self, transactional_id: str) -> bool:
        return transactional_id in self._failed_fences

    def mark(self, transactional_id: str, partitions: frozenset[tuple[str, int]]) -> None:
        """Record partitions of the ending transaction that have a marker."""
        self._marked[transactional_id] = self._marked.get(transactional_id, frozenset()) | partitions

    def unmarked(self, record: TransactionRecord) -> tuple[tuple[str, int], ...]:
        """The partitions of the transaction without a marker."""
        marked = self._marked.get(record.transactional_id)
        return record.partitions if marked is None else tuple(row for row in record.partitions if row not in marked)

    def clear_steps(self) -> None:
        self._pending.clear()
        self._failed_fences.clear()
        self._marked.clear()


EXPIRATION_KEY = ("expiration", "")
BATCH = 1_000
"""Maximum number of tombstones in one step; the next step follows at once."""


def expire(cache: TransactionMetadataCache, config: TransactionConfig, moment: Moment) -> Outcome[AnyTransactionRecord]:
    """Tombstones for expired ids, and the timer of the next scan."""
    expired = _expired_ids(cache, moment.wall_ms - config.transactional_id_expiration_ms)
    next_scan = (EXPIRATION_KEY, moment.monotonic_ms + config.expiration_interval_ms)
    if not expired:
        return Outcome(timers=[next_scan])
    for transactional_id in expired:
        cache.begin(transactional_id, TransactionState.DEAD)

    def after(code: ErrorCode, now: Moment) -> Outcome[AnyTransactionRecord]:
        for transactional_id in expired:
            cache.settle(transactional_id)
        return Outcome() if code is ErrorCode.NONE else Outcome(timers=[next_scan])

    return Outcome(
        records=[TransactionRemoved(transactional_id=transactional_id) for transactional_id in expired],
        timers=[(EXPIRATION_KEY, moment.monotonic_ms) if len(expired) == BATCH else next_scan],
        after=after,
        log_lines=[f"expired {len(expired)} transactional ids after transactional.id.expiration.ms"],
    )


def _expired_ids(cache: TransactionMetadataCache, limit_ms: int) -> list[str]:
    found: list[str] = []
    for record in cache.oldest_first():
        if record.last_update_ms > limit_ms or len(found) == BATCH:
            break
        if record.state.may_expire and not cache.is_pending(record.transactional_id):
            found.append(record.transactional_id)
    return found
