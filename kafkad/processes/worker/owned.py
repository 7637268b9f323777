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
    """Requests for them may still be on their way, or wait: a slot remembers the last topic that was deleted in it."""

    __slots__ = ("_by_slot",)

    def __init__(self) -> None:
        self._by_slot: dict[int, int] = {}
        """Short topic ids."""

    def left(self, owned: "OwnedPartition", *, is_deleted: bool) -> None:
        """The partition is not here any more; if not `is_deleted`, only this broker's replica of it is gone."""
        if is_deleted:
            self._by_slot[owned.slot] = owned.short_id
        else:
            self._by_slot.pop(owned.slot, None)

    def includes(self, slot: int, short_id: int) -> bool:
        return self._by_slot.get(slot) == short_id

    def had_last(self, slot: int) -> bool:
        """Whether what left the slot last was deleted."""
        return slot in self._by_slot


class OwnedPartition:
    """Slotted and mutable: the state of the partition, which only its owner has."""

    __slots__ = (
        "bytes_in",
        "early_progress",
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
        "messages_in",
        "name",
        "needs_recovery",
        "no_space_due_ms",
        "replicas",
        "role",
        "row",
        "short_id",
        "shown_start",
        "slot",
        "state",
        "topic_id",
        "truncating_to",
        "unaware",
        "waiting_questions",
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
        """Added to the log's generation, which restarts with each load; published generations only grow."""
        self.role = ROLE_LEADER
        self.row: Partition | None = None
        """What the metadata says of it."""
        self.led: LedPartition | None = None
        """What its leader knows of followers; None if it is not led here, or has one replica."""
        self.early_progress: dict[int, FollowerFetched] | None = None
        """What followers have reached by replica, said before the log was loaded: it is said once."""
        self.truncating_to: LogPosition | None = None
        """The log is about to be truncated: nothing from there on is shown any more."""
        self.in_sync = 1
        self.replicas = 1
        self.state = STATE_RECOVERING
        self.log: PartitionLog | None = None
        self.needs_recovery = False
        """Its files were not closed cleanly and are not checked yet, so they must not be marked clean."""
        self.watchers: list[tuple[int, int, int]] = []
        """(network process, offset, isolation): a watcher to tell once fetches of this isolation may read past the
        offset. At most one of each isolation for each network process.
        """
        self.shown_start = -1
        self.unaware: frozenset[int] = frozenset()  # Network processes that may not know where the log begins now.
        self.waiting_questions: list[tuple[ProcessKey, ManifestRequest]] = []
        """Manifest requests that came before the log was loaded: an empty answer would only be requested again at
        once.
        """
        self.no_space_due_ms = 0
        """When the next log line about a full disk is due for this partition."""
        self.bytes_in = 0
        self.messages_in = 0
        """Appended since the slot was published last."""
        self.is_dirty = False
        """Whether the slot is behind the log; published at the end of the loop pass."""
        self.is_swapping = False
        """Whether segments are about to be replaced: until then nobody gets a manifest, so nobody opens them."""
        self.future_dir = -1
        """The log directory to which it is being moved. Until it is there, its segments are not compacted."""
        self.future_end = self.future_bytes = 0
        """How much of it is there."""

    def take_state(self, row: Partition, broker_id: int) -> bool:
        """What the metadata says of its leader and in-sync replicas; whether its role or leader epoch changed."""
        role = ROLE_FOLLOWER
        if row.leader in (broker_id, NO_LEADER):
            role = ROLE_NONE if row.leader == NO_LEADER else ROLE_LEADER
        changed = (role, row.leader_epoch) != (self.role, self.leader_epoch)
        self.role, self.leader_epoch = role, row.leader_epoch
        self.row = row
        self.in_sync, self.replicas = len(row.isr), len(row.replicas)
        return changed

    @property
    def generation(self) -> int | None:
        """What the slot says of its log's files, or will say at the end of the pass."""
        return None if self.log is None else self.generation_base + self.log.generation

    @property
    def leads(self) -> bool:
        """Whether this broker may write to it as its leader."""
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
        """In-sync replicas, with those that a change under way would add."""
        return self.in_sync if self.led is None else len(self.led.maximal_isr)

    def forget_watch(self, network: int, isolation: int) -> None:
        """This network process was answered, or watches anew: drop its watcher."""
        if self.watchers:
            self.watchers = [row for row in self.watchers if (row[0], row[2]) != (network, isolation)]

    def forget_network(self, network: int) -> None:
        """A network process is dead: drop its watchers."""
        self.watchers = [row for row in self.watchers if row[0] != network]
        self.waiting_questions = [row for row in self.waiting_questions if row[0].index != network]

    def published(self, before: PartitionSlot) -> PartitionSlot:
        """The slot's content while there is no log; the offsets of `before` stay."""
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
