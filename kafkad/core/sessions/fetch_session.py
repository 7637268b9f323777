"""One incremental fetch session: its partitions, and which of them must be evaluated (KIP-227).

A session evaluates only changes: `dirty` has the partitions that may have changed, so a fetch of ten thousand idle
partitions evaluates none. The code that evaluates a partition decides whether it stays dirty.
"""

from collections.abc import Iterable

from kafkad.core.types import HIGH_WATERMARK

TopicKey = str | bytes
"""A topic in the session's requests: its name, or its 16-byte id from Fetch 13 on."""
PartitionKey = tuple[TopicKey, int]

NO_REPLICA = -1
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
_EPOCH_MAX = 2**31 - 1
UNKNOWN = -1


class CachedPartition:
    """The state of one partition in a session: its last request and its last response.

    Mutable and slotted: read for each partition of each fetch. `slot` is -1 while unresolved.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "slot",
    )

    def __init__(
        self,
        key: PartitionKey,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = UNKNOWN,
        last_fetched_epoch: int = UNKNOWN,
    ) -> None:
        self.key = key
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.slot = UNKNOWN
        self.high_watermark = UNKNOWN
        self.log_start_offset = UNKNOWN

    def must_include(self, error: int, high_watermark: int, log_start_offset: int, *, has_records: bool) -> bool:
        """Whether an incremental response must contain the partition; stores the values of that response."""
        is_included = has_records or error != 0
        if self.high_watermark != high_watermark:
            self.high_watermark = high_watermark
            is_included = True
        if self.log_start_offset != log_start_offset:
            self.log_start_offset = log_start_offset
            is_included = True
        if error:
            # Errors are repeated until they end; then the recovery must be reported too.
            self.high_watermark = UNKNOWN
        return is_included


def next_epoch(epoch: int) -> int:
    """The epoch of the request after one with `epoch`; wraps to 1."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class FetchSession:
    """A session, or (with `session_id` 0) the partitions of one sessionless fetch; evaluation is the same."""

    __slots__ = (
        "by_slot",
        "change_sets",
        "created_ms",
        "dirty",
        "epoch",
        "isolation",
        "last_used_ms",
        "leader_only",
        "log_starts",
        "may_follow",
        "partitions",
        "rack_id",
        "replica_epoch",
        "replica_id",
        "session_id",
        "unreported",
        "uses_topic_ids",
    )

    def __init__(self, partitions: Iterable[CachedPartition], now_ms: int, *, uses_topic_ids: bool) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.uses_topic_ids = uses_topic_ids
        self.isolation = HIGH_WATERMARK
        self.leader_only = False
        """Whether only the leader may serve the session: for followers and old consumers."""
        self.may_follow = True
        """False: the session was opened as a follower's on a broker without followers."""
        self.rack_id = ""
        """The rack of the session's consumer."""
        self.replica_id = NO_REPLICA
        self.replica_epoch = NO_REPLICA
        self.log_starts: dict[PartitionKey, int] = {}
        """The log start offsets of the session's follower."""
        self.unreported: set[PartitionKey] = set()
        """The partitions whose fetch offsets are not reported to their owners yet."""
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.partitions: dict[PartitionKey, CachedPartition] = {row.key: row for row in partitions}
        self.dirty: dict[PartitionKey, None] = dict.fromkeys(self.partitions)
        self.by_slot: dict[int, PartitionKey] = {}
        self.change_sets: list[dict[PartitionKey, None]] = []
        """Each has the partitions that change while a request evaluates the session in steps."""

    @property
    def is_privileged(self) -> bool:
        """Whether this is a follower's session: it may evict the sessions of consumers, but not vice versa."""
        return self.may_follow and self.replica_id != NO_REPLICA

    def read_by_follower(
        self, replica_id: int, replica_epoch: int, log_starts: Iterable[tuple[PartitionKey, int]]
    ) -> None:
        """A follower fetches these partitions from offsets that it has reached.

        If its broker has registered again meanwhile, all its offsets are reported in its new epoch.
        """
        if replica_epoch != self.replica_epoch:
            for key in self.log_starts:
                self.unreported.add(key)
                self.dirty[key] = None
        self.replica_id, self.replica_epoch = replica_id, replica_epoch
        for key, log_start in log_starts:
            self.log_starts[key] = log_start
            self.unreported.add(key)

    def report_again(self, slot: int) -> None:
        """The owner of `slot` was replaced: a follower's offset must be reported again."""
        key = self.by_slot.get(slot)
        if key in self.log_starts:
            self.unreported.add(key)
            self.dirty[key] = None

    def set_isolation(self, isolation: int) -> None:
        """Set the isolation level, which is in each request; in practice it never changes."""
        if isolation != self.isolation:
            self.isolation = isolation
            self.dirty = dict.fromkeys(self.partitions)

    def update(self, changed: Iterable[CachedPartition], forgotten: Iterable[PartitionKey]) -> list[int]:
        """Apply an incremental request; returns the slots that the session no longer reads."""
        for row in changed:
            existing = self.partitions.get(row.key)
            if existing is None:
                self.partitions[row.key] = row
            else:
                existing.fetch_offset = row.fetch_offset
                existing.max_bytes = row.max_bytes
                existing.current_leader_epoch = row.current_leader_epoch
                existing.last_fetched_epoch = row.last_fetched_epoch
            self.dirty[row.key] = None
        return [slot for key in forgotten if (slot := self._remove(key)) is not None]

    def _remove(self, key: PartitionKey) -> int | None:
        row = self.partitions.pop(key, None)
        self.dirty.pop(key, None)
        self.log_starts.pop(key, None)
        self.unreported.discard(key)
        if row is None or row.slot == UNKNOWN:
            return None
        self.by_slot.pop(row.slot, None)
        return row.slot

    def bind(self, row: CachedPartition, slot: int) -> None:
        """Set the slot of the partition, for the first time or after a change."""
        if row.slot != UNKNOWN and row.slot != slot:
            self.by_slot.pop(row.slot, None)
        row.slot = slot
        if slot != UNKNOWN:
            self.by_slot[slot] = row.key

    def slot_changed(self, slot: int) -> None:
        """Mark the partition of `slot` dirty."""
        key = self.by_slot.get(slot)
        if key is not None:
            self.dirty[key] = None
            for changes in self.change_sets:
                changes[key] = None

    def track_changes(self) -> dict[PartitionKey, None]:
        """Collect the partitions that change from now on, until `end_tracking` gets the returned set."""
        changes: dict[PartitionKey, None] = {}
        self.change_sets.append(changes)
        return changes

    def end_tracking(self, changes: dict[PartitionKey, None]) -> None:
        """Mark the changed partitions dirty: the response may be outdated for them."""
        self.change_sets = [other for other in self.change_sets if other is not changes]
        for key in changes:
            if key in self.partitions:
                self.dirty[key] = None

    def evaluated(self, key: PartitionKey, *, has_more: bool, has_records: bool = True) -> None:
        """The partition was evaluated. With more records it moves to the end of the order, for fairness.

        A partition without space in the response keeps its position: some batches fit only into an empty response.
        """
        if has_records or not has_more:
            self.dirty.pop(key, None)
        if has_more and key in self.partitions:
            self.dirty[key] = None
