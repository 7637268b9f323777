"""One partition in its owner: its log, its published slot, and the watchers of its high watermark."""

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.image import NO_LEADER, Partition
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.partition_slot import (
    ROLE_FOLLOWER,
    ROLE_LEADER,
    ROLE_NONE,
    STATE_ONLINE,
    STATE_RECOVERING,
    PartitionSlot,
)
from kafkad.core.replication.leading.led_partition import LedPartition
from kafkad.core.types import LogPosition, TopicPartition
from kafkad.wire.processes.descriptors import ManifestRequest, short_topic_id
from kafkad.wire.processes.follower_progress import FollowerFetched


class DeletedTopics:
    """The last deleted topic of each slot: requests for it may still be queued or waiting."""

    __slots__ = ("_by_slot",)

    def __init__(self) -> None:
        self._by_slot: dict[int, int] = {}
        """Short topic ids."""

    def left(self, owned: "OwnedPartition", *, is_deleted: bool) -> None:
        """The partition was removed from this worker; without `is_deleted` only the replica of this broker."""
        if is_deleted:
            self._by_slot[owned.slot] = owned.short_id
        else:
            self._by_slot.pop(owned.slot, None)

    def includes(self, slot: int, short_id: int) -> bool:
        return self._by_slot.get(slot) == short_id

    def had_last(self, slot: int) -> bool:
        """Whether the last partition of the slot was deleted."""
        return slot in self._by_slot


class OwnedPartition:
    """The mutable state of a partition, which only its owner has."""

    __slots__ = (
        "bytes_in",
        "future_bytes",
        "future_dir",
        "future_end",
        "generation_base",
        "in_sync",
        "is_dirty",
        "is_swapping",
        "leader_epoch",
        "led",
        "log",
        "log_dir",
        "lost_leaderships",
        "messages_in",
        "name",
        "needs_recovery",
        "no_space_due_ms",
        "pending_progress",
        "published_start",
        "replicas",
        "role",
        "row",
        "short_id",
        "slot",
        "state",
        "topic_id",
        "truncating_to",
        "unnotified",
        "waiting_requests",
        "watchers",
        "worker",
    )

    def __init__(
        self, name: TopicPartition, slot: int, topic_id: bytes, worker: int, log_dir: int, leader_epoch: int
    ) -> None:
        self.name = name
        self.slot = slot
        self.topic_id = topic_id
        self.short_id = short_topic_id(topic_id)
        self.worker = worker
        self.log_dir = log_dir
        self.leader_epoch = leader_epoch
        self.generation_base = 0
        """Added to the log's generation, which restarts at each load; published generations only increase."""
        self.role = ROLE_LEADER
        self.lost_leaderships = 0
        """The number of lost leaderships. A record appended before the last loss may have been truncated since."""
        self.row: Partition | None = None
        """The partition in the metadata."""
        self.led: LedPartition | None = None
        """The leader's state of the followers; None if this broker does not lead it, or with one replica."""
        self.pending_progress: dict[int, FollowerFetched] | None = None
        """The followers' progress by replica that was received before the log was loaded: it is sent once."""
        self.truncating_to: LogPosition | None = None
        """A pending truncation: the published slot ends at this position."""
        self.in_sync = 1
        self.replicas = 1
        self.state = STATE_RECOVERING
        self.log: PartitionLog | None = None
        self.needs_recovery = False
        """The log was not closed cleanly and is not recovered yet: its directory must not be marked clean."""
        self.watchers: list[tuple[int, int, int]] = []
        """(network process, offset, isolation): a watcher, notified once fetches of this isolation may read past the
        offset. At most one for each network process and isolation.
        """
        self.published_start = -1
        self.unnotified: frozenset[int] = frozenset()  # Network processes that may have an older log start offset.
        self.waiting_requests: list[tuple[ProcessKey, ManifestRequest]] = []
        """Manifest requests that wait until the log is loaded: readers would repeat them after an empty manifest."""
        self.no_space_due_ms = 0
        """When the next log line about a full disk may be written for this partition."""
        self.bytes_in = 0
        self.messages_in = 0
        """Appended since the last publication of the slot."""
        self.is_dirty = False
        """Whether the slot is behind the log: it is published at the end of the loop pass."""
        self.is_swapping = False
        """Whether segments are about to be replaced: manifest requests wait, so that no reader opens the segments."""
        self.future_dir = -1
        """The log directory to which it is being moved; its segments are not compacted meanwhile."""
        self.future_end = self.future_bytes = 0
        """The copied part: end offset and size."""

    def update_state(self, row: Partition, broker_id: int) -> bool:
        """Set leader and in-sync replicas from the metadata. Returns whether the role or the leader epoch changed."""
        role = ROLE_FOLLOWER
        if row.leader in (broker_id, NO_LEADER):
            role = ROLE_NONE if row.leader == NO_LEADER else ROLE_LEADER
        changed = (role, row.leader_epoch) != (self.role, self.leader_epoch)
        if self.role == ROLE_LEADER and role != ROLE_LEADER:
            self.lost_leaderships += 1
        self.role, self.leader_epoch = role, row.leader_epoch
        self.row = row
        self.in_sync, self.replicas = len(row.isr), len(row.replicas)
        return changed

    @property
    def generation(self) -> int | None:
        """The generation of the log's files in the slot at the end of this pass."""
        return None if self.log is None else self.generation_base + self.log.generation

    @property
    def leads(self) -> bool:
        """Whether this broker may append to it as its leader."""
        return self.state == STATE_ONLINE and self.role == ROLE_LEADER

    @property
    def is_online(self) -> bool:
        return self.state == STATE_ONLINE

    @property
    def is_moving(self) -> bool:
        return self.future_dir >= 0

    @property
    def is_recovering(self) -> bool:
        return self.state == STATE_RECOVERING

    def min_in_sync(self, log: PartitionLog) -> int:
        """`min.insync.replicas` of its `log`, but at most the number of its replicas (as in Apache Kafka 4.3)."""
        return min(log.config.min_insync_replicas, self.replicas)

    @property
    def maximal_in_sync(self) -> int:
        """The number of in-sync replicas, with the additions of a pending ISR change."""
        return self.in_sync if self.led is None else len(self.led.maximal_isr)

    def forget_watch(self, network: int, isolation: int) -> None:
        """This network process was notified, or has a new watch: drop its watcher."""
        if self.watchers:
            self.watchers = [row for row in self.watchers if (row[0], row[2]) != (network, isolation)]

    def forget_network(self, network: int) -> None:
        """A network process is dead: drop its watchers."""
        self.watchers = [row for row in self.watchers if row[0] != network]
        self.waiting_requests = [row for row in self.waiting_requests if row[0].index != network]

    def published(self, before: PartitionSlot) -> PartitionSlot:
        """The slot's content without a log; the offsets of `before` are kept."""
        return before._replace(
            topic_id=self.topic_id,
            partition=self.name.partition,
            owner=self.worker,
            log_dir=self.log_dir,
            role=self.role,
            state=self.state,
            leader_epoch=self.leader_epoch,
            future_dir=self.future_dir,
            future_end=self.future_end,
            future_bytes=self.future_bytes,
        )

    def published_log(self, log: PartitionLog) -> PartitionSlot:
        """The slot's content for the present state of the partition's `log`."""
        end, high_watermark, stable = log.log_end, log.high_watermark, log.last_stable
        if self.truncating_to is not None:
            truncating_to = self.truncating_to
            end, high_watermark, stable = truncating_to, min(high_watermark, truncating_to), min(stable, truncating_to)
        return PartitionSlot(
            self.topic_id,
            self.name.partition,
            self.worker,
            self.log_dir,
            self.role,
            self.state,
            self.leader_epoch,
            self.generation_base + log.generation,
            log.log_start_offset,
            high_watermark.offset,
            high_watermark.segment_base,
            high_watermark.position,
            stable.offset,
            stable.segment_base,
            stable.position,
            end.offset,
            end.segment_base,
            end.position,
            log.size_bytes,
            len(log.segments),
            log.recovery_point,
            log.cleaned_offset,
            self.future_dir,
            self.future_end,
            self.future_bytes,
            0 if self.led is None else self.led.epoch_start,
            1 if self.led is None else self.min_in_sync(log),
        )
