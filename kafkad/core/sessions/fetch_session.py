"""One incremental fetch session: its partitions, and which of them need a look (KIP-227).

A session looks only at changes: `dirty` holds the partitions that may have news, so a fetch over ten thousand quiet
partitions looks at none. The code that evaluates a partition decides whether it stays dirty.
"""

from collections.abc import Iterable

from kafkad.core.types import HIGH_WATERMARK

TopicKey = str | bytes
"""A topic as the session's requests name it: by name, or by 16-byte id from Fetch 13 on."""
PartitionKey = tuple[TopicKey, int]

NO_REPLICA = -1
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
_EPOCH_MAX = 2**31 - 1
UNKNOWN = -1


class CachedPartition:
    """The state of one partition in a session: its last request and its last answer.

    Mutable and slotted: it is looked at for each partition of each fetch. `slot` is -1 while unresolved.
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
        """Whether an incremental response has to contain the partition; remembers the values of that response."""
        tell = has_records or error != 0
        if self.high_watermark != high_watermark:
            self.high_watermark = high_watermark
            tell = True
        if self.log_start_offset != log_start_offset:
            self.log_start_offset = log_start_offset
            tell = True
        if error:
            # Errors are repeated until they are gone; then the change back has to be reported as well.
            self.high_watermark = UNKNOWN
        return tell


def next_epoch(epoch: int) -> int:
    """The epoch that the request after one with `epoch` must carry; wraps past 0."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class FetchSession:
    """A session, or (with `session_id` 0) the partitions of one sessionless fetch: both are evaluated alike."""

    __slots__ = (
        "by_slot",
        "created_ms",
        "dirty",
        "epoch",
        "isolation",
        "last_used_ms",
        "leader_only",
        "listeners",
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
        """Whether only the leader may answer: followers and old consumers."""
        self.may_follow = True
        """False: it was opened as a follower's where nobody is one."""
        self.rack_id = ""
        """Where the consumer is that reads in this session."""
        self.replica_id = NO_REPLICA
        self.replica_epoch = NO_REPLICA
        self.log_starts: dict[PartitionKey, int] = {}
        """Where the log of the follower begins that reads in this session."""
        self.unreported: set[PartitionKey] = set()
        """The partitions whose owners have not heard of its offsets."""
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.partitions: dict[PartitionKey, CachedPartition] = {row.key: row for row in partitions}
        self.dirty: dict[PartitionKey, None] = dict.fromkeys(self.partitions)
        self.by_slot: dict[int, PartitionKey] = {}
        self.listeners: list[dict[PartitionKey, None]] = []
        """Each collects the partitions that change while a request evaluates the session in steps."""

    @property
    def is_privileged(self) -> bool:
        """Whether a follower reads in it: it may evict the sessions of consumers, and they may not evict it."""
        return self.may_follow and self.replica_id != NO_REPLICA

    def read_by_follower(
        self, replica_id: int, replica_epoch: int, log_starts: Iterable[tuple[PartitionKey, int]]
    ) -> None:
        """A follower asks for these partitions from offsets that it has reached.

        Its broker may have registered anew meanwhile: then all that it has is reported in its new epoch.
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
        """The owner of `slot` was replaced: a follower's offset has to be reported once more."""
        key = self.by_slot.get(slot)
        if key in self.log_starts:
            self.unreported.add(key)
            self.dirty[key] = None

    def set_isolation(self, isolation: int) -> None:
        """Up to where the session reads. Each request says so; in practice it never changes."""
        if isolation != self.isolation:
            self.isolation = isolation
            self.dirty = dict.fromkeys(self.partitions)

    def update(self, changed: Iterable[CachedPartition], forgotten: Iterable[PartitionKey]) -> list[int]:
        """Apply an incremental request; returns the slots that the session no longer looks at."""
        for row in changed:
            known = self.partitions.get(row.key)
            if known is None:
                self.partitions[row.key] = row
            else:
                known.fetch_offset = row.fetch_offset
                known.max_bytes = row.max_bytes
                known.current_leader_epoch = row.current_leader_epoch
                known.last_fetched_epoch = row.last_fetched_epoch
            self.dirty[row.key] = None
        return [slot for key in forgotten if (slot := self._forget(key)) is not None]

    def _forget(self, key: PartitionKey) -> int | None:
        row = self.partitions.pop(key, None)
        self.dirty.pop(key, None)
        self.log_starts.pop(key, None)
        self.unreported.discard(key)
        if row is None or row.slot == UNKNOWN:
            return None
        self.by_slot.pop(row.slot, None)
        return row.slot

    def bind(self, row: CachedPartition, slot: int) -> None:
        """The partition's slot was found, for the first time or anew."""
        if row.slot != UNKNOWN and row.slot != slot:
            self.by_slot.pop(row.slot, None)
        row.slot = slot
        if slot != UNKNOWN:
            self.by_slot[slot] = row.key

    def moved(self, slot: int) -> None:
        """Something about `slot` changed: its partition is dirty now."""
        key = self.by_slot.get(slot)
        if key is not None:
            self.dirty[key] = None
            for listener in self.listeners:
                listener[key] = None

    def listen(self) -> dict[PartitionKey, None]:
        """Collect the partitions that change from now on, until the listener is given to `heard`."""
        listener: dict[PartitionKey, None] = {}
        self.listeners.append(listener)
        return listener

    def heard(self, listener: dict[PartitionKey, None]) -> None:
        """The answer may be outdated for these partitions: they are dirty again."""
        self.listeners = [each for each in self.listeners if each is not listener]
        for key in listener:
            if key in self.partitions:
                self.dirty[key] = None

    def served(self, key: PartitionKey, *, has_more: bool, has_records: bool = True) -> None:
        """The partition was evaluated. If it has more records it goes to the end of the order, for fairness.

        A partition for which the response had no room keeps its place: some batches fit only into an empty response.
        """
        if has_records or not has_more:
            self.dirty.pop(key, None)
        if has_more and key in self.partitions:
            self.dirty[key] = None
