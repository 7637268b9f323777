"""The state of every transactional id of one partition: its newest record, and its pending step.

Records come by replay only. A restart forgets pending steps, their progress, and a fence that could not be written.
"""

from collections.abc import Iterator

from kafkad.core.transactions.records import AnyTransactionRecord, TransactionRecord
from kafkad.core.transactions.state import TransactionState


class TransactionMetadataCache:
    """Mutable: the state of the shard. An id has one pending step at a time; other requests are refused meanwhile."""

    def __init__(self) -> None:
        # In the order of their newest records, oldest first: the ids that expire next are at the front.
        self._known: dict[str, TransactionRecord] = {}
        self._pending: dict[str, TransactionState] = {}
        self._failed_fences: dict[str, TransactionRecord] = {}
        self._marked: dict[str, frozenset[tuple[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def replay(self, record: AnyTransactionRecord) -> None:
        transactional_id = record.transactional_id
        self._known.pop(transactional_id, None)
        self._failed_fences.pop(transactional_id, None)
        self._marked.pop(transactional_id, None)
        if isinstance(record, TransactionRecord):
            self._known[transactional_id] = record

    def get(self, transactional_id: str) -> TransactionRecord | None:
        """The newest record. After a fence that could not be written, the one with the fencing epoch all the same."""
        return self._failed_fences.get(transactional_id) or self._known.get(transactional_id)

    def oldest_first(self) -> Iterator[TransactionRecord]:
        return iter(self._known.values())

    def is_pending(self, transactional_id: str) -> bool:
        return transactional_id in self._pending

    def pending(self, transactional_id: str) -> TransactionState | None:
        return self._pending.get(transactional_id)

    def begin(self, transactional_id: str, state: TransactionState) -> None:
        """A step towards `state` is pending."""
        self._pending[transactional_id] = state

    def settle(self, transactional_id: str) -> None:
        """The pending step has ended, with success or without."""
        self._pending.pop(transactional_id, None)

    def is_written(self, record: TransactionRecord) -> bool:
        """Whether this very record is in the log, safe or not."""
        return self._known.get(record.transactional_id) is record

    def fence_failed(self, view: TransactionRecord) -> None:
        """`view` could not be written, but the epoch before it is fenced all the same."""
        self._failed_fences[view.transactional_id] = view

    def has_failed_fence(self, transactional_id: str) -> bool:
        return transactional_id in self._failed_fences

    def mark(self, transactional_id: str, partitions: frozenset[tuple[str, int]]) -> None:
        """These partitions of the ending transaction have their markers."""
        self._marked[transactional_id] = self._marked.get(transactional_id, frozenset()) | partitions

    def unmarked(self, record: TransactionRecord) -> tuple[tuple[str, int], ...]:
        """The partitions of the transaction that have no marker yet."""
        marked = self._marked.get(record.transactional_id)
        return record.partitions if marked is None else tuple(row for row in record.partitions if row not in marked)

    def forget_steps(self) -> None:
        self._pending.clear()
        self._failed_fences.clear()
        self._marked.clear()
