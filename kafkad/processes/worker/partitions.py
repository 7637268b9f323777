"""The partitions that this worker owns, updated by the metadata.

The controller decides slot, owner and directory; this module creates, loads, reconfigures and removes logs. A change is
applied when its partitions are online, so that a new topic is usable at once.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from kafkad.adapters.files.directory_removal import DirectoryRemovals
from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.adapters.shared_memory.process_registry import (
    FIRST_INCARNATION,
    GRACE_CHECK_MS,
    GraceMark,
    ProcessKey,
    ProcessRegistry,
)
from kafkad.config.entities.broker import BrokerConfig
from kafkad.config.entities.topic import topic_log_config, unknown_topic_configs, unreadable_topic_configs
from kafkad.core.controller.deltas import (
    MetadataDelta,
    PartitionsAdded,
    PartitionsChanged,
    ReplicasRemoved,
    Snapshot,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from kafkad.core.controller.image import MetadataImage, Partition, Topic
from kafkad.core.log.segments.layout import marked_directory_name
from kafkad.core.log.settings import LogConfig
from kafkad.core.partition_slot import STATE_DELETING, STATE_FREE, STATE_OFFLINE, PartitionSlot
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.core.types import TopicPartition
from kafkad.processes.runtime.turns import STEP_S
from kafkad.processes.worker.loading import Loader
from kafkad.processes.worker.moving.moves import Moves
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.owned import DeletedTopics, OwnedPartition
from kafkad.wire.processes.controller_messages import DirectoriesRemoved, RemovalFailed

log = logging.getLogger(__name__)

RENAME_RETRY_MS = 1000


class _DeletedPartition:
    """A deleted partition. Its directory, if any, is removed when no reader can hold a file of it open."""

    __slots__ = ("directory", "due_ms", "is_unattempted", "marks", "owned", "retry_ms", "slot")

    def __init__(self, owned: OwnedPartition, due_ms: int, marks: tuple[GraceMark, ...]) -> None:
        self.owned = owned
        self.slot = owned.slot
        self.directory: Path | None = None
        """The renamed directory."""
        self.retry_ms = 0
        """When to retry the rename."""
        self.due_ms = due_ms
        self.marks = marks
        self.is_unattempted = True


class PartitionChanges(NamedTuple):
    """Partitions that a metadata delta has changed: removed from this worker, or in another role or leader epoch, or in
    another state of the same leader epoch.
    """

    withdrawn: list[OwnedPartition]
    role_changed: list[OwnedPartition]
    state_changed: list[OwnedPartition]


class Partitions:
    """The partitions of worker `worker`, by slot. `short` log directories lack space."""

    def __init__(
        self,
        worker: int,
        table: PartitionTable,
        registry: ProcessRegistry,
        loader: Loader,
        moves: Moves,
        config: BrokerConfig,
        outbox: Outbox,
        by_slot: dict[int, OwnedPartition],
        short: Container[int],
    ) -> None:
        self.by_slot = by_slot
        self.deleted = DeletedTopics()
        self.image = MetadataImage()
        self._worker = worker
        self._table = table
        self._registry = registry
        self._loader = loader
        self._moves = moves
        self._config = config
        self._outbox = outbox
        self._short = short
        self._changes = PartitionChanges([], [], [])
        self._deletions: deque[_DeletedPartition] = deque()
        self._check_due_ms: int | None = None
        """When to check deleted partitions again; None without any."""
        self._follows_dead_worker = registry.incarnation(ProcessKey("worker", worker)) > FIRST_INCARNATION
        """Until the first snapshot."""
        self.unattempted = 0
        """The number of deleted partitions without a first attempt to rename their directory."""
        self._removals = DirectoryRemovals()
        self._ineffective_configs: dict[str, list[str]] = {}
        """The logged errors by topic."""

    @property
    def broker_id(self) -> int:
        return self._config.node_id

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> PartitionChanges:
        """Apply `delta`; `image` is the metadata after it."""
        self.image = image
        changes = self._changes = PartitionChanges([], [], [])
        for change in delta.changes:
            match change:
                case TopicCreated(topic):
                    self._update(topic, topic.partitions)
                case PartitionsAdded(name, partitions):
                    self._update(image.topics[name], partitions)
                case PartitionsChanged(name, partitions):
                    self._update(image.topics[name], partitions)
                case TopicDeleted(_, topic_id, slots):
                    self._drop(topic_id.bytes, slots)
                case ReplicasRemoved(_, topic_id, _, slots):
                    self._drop(topic_id.bytes, slots)
                case TopicConfigChanged(name, _):
                    self._reconfigure(image.topics[name])
                case Snapshot():
                    self._apply_snapshot(image)
        return changes

    @property
    def config(self) -> BrokerConfig:
        """The present configuration, with all changes since the start."""
        return self._config

    def configure(self, config: BrokerConfig) -> None:
        """The options of the broker, which all topics inherit, have changed."""
        self._config = config
        self._reconfigure_all()

    def _apply_snapshot(self, image: MetadataImage) -> None:
        owned_slots = {
            row.slot for topic in image.topics.values() for row in topic.partitions if row.owner == self._worker
        }
        for slot in [slot for slot in self.by_slot if slot not in owned_slots]:
            self._drop(self.by_slot[slot].topic_id, (slot,))
        if self._follows_dead_worker:
            self._follows_dead_worker = False
            self._free_slots_of_dead_worker(owned_slots)
        for topic in image.topics.values():
            self._update(topic, topic.partitions)
        self._reconfigure_all()

    def _free_slots_of_dead_worker(self, owned_slots: Container[int]) -> None:
        """The partitions of these slots were deleted, and the earlier incarnation of this worker did not free them."""
        for slot in range(ControllerHandover(self._table).slots_ever_used):
            if slot not in owned_slots:
                published = self._table.read(slot)
                if published.owner == self._worker and published.state != STATE_FREE:
                    self._table.clear(slot)

    def _update(self, topic: Topic, partitions: tuple[Partition, ...]) -> None:
        config: LogConfig | None = None
        for row in partitions:
            if row.owner != self._worker or row.slot < 0:
                continue
            owned_before = self.by_slot.get(row.slot)
            if owned_before is not None and owned_before.topic_id == topic.id.bytes:
                if owned_before.update_state(row, self._config.node_id):
                    self._changes.role_changed.append(owned_before)
                elif len(row.replicas) > 1:
                    self._changes.state_changed.append(owned_before)
                self._moves.changed(owned_before, row)
                continue
            config = config or self._log_config(topic)
            self._add(topic, row, config)

    def _add(self, topic: Topic, row: Partition, config: LogConfig) -> None:
        name = TopicPartition(topic.name, row.index)
        owned = OwnedPartition(name, row.slot, topic.id.bytes, self._worker, row.log_dir, row.leader_epoch)
        owned.update_state(row, self._config.node_id)
        self.by_slot[row.slot] = owned
        before = self._table.read(row.slot)
        self._moves.added(owned, row, replaces_dead_worker=before.topic_id == owned.topic_id)
        if row.log_dir < 0:
            # Its log directory is offline: nothing is loaded.
            owned.state = STATE_OFFLINE
        if before.topic_id != owned.topic_id:
            # The slot has the state of another partition.
            self._table.reset_traffic(row.slot)
            before = PartitionSlot(generation=before.generation + 1)
        self._table.publish(row.slot, owned.published(before))
        if owned.state != STATE_OFFLINE:
            self._loader.add(owned, config, before)

    def _log_config(self, topic: Topic) -> LogConfig:
        self._log_ineffective_configs(topic)
        return topic_log_config(self._config, topic.configs)

    def _log_ineffective_configs(self, topic: Topic) -> None:
        """Log configs in the coordination store that this version cannot use, once for each change."""
        lines = [f"{name}: {reason}" for name, reason in unreadable_topic_configs(topic.configs).items()]
        lines += [f"{name} is unknown to this version" for name in unknown_topic_configs(topic.configs)]
        if lines and self._ineffective_configs.get(topic.name) != lines:
            log.error("ignoring configs of topic %s: %s", topic.name, "; ".join(lines))
            self._ineffective_configs[topic.name] = lines
        elif not lines:
            self._ineffective_configs.pop(topic.name, None)

    def _reconfigure(self, topic: Topic) -> None:
        """With unreadable configs a loaded log keeps its settings, as in Apache Kafka."""
        config = self._log_config(topic)
        if unreadable_topic_configs(topic.configs):
            return
        for row in topic.partitions:
            owned = self.by_slot.get(row.slot)
            if owned is not None and owned.log is not None:
                owned.log.update_config(config)

    def _reconfigure_all(self) -> None:
        expiration_ms = self._config.log_dirs.producer_id_expiration_ms
        verifies = bool(self._config.values["transaction.partition.verification.enable"])
        self._loader.producer_expiration_ms = expiration_ms
        self._loader.verifies_transactions = verifies
        self._loader.read_ahead.threads = self._config.log_dirs.num_recovery_threads_per_data_dir
        for owned in self.by_slot.values():
            if owned.log is not None:
                owned.log.producers.expiration_ms = expiration_ms
                owned.log.producers.verifies_transactions = verifies
        for topic in self.image.topics.values():
            self._reconfigure(topic)

    # Deletion: withdraw the slot, rename the directory, remove the files.

    def _drop(self, topic_id: bytes, slots: tuple[int, ...]) -> None:
        for slot in slots:
            owned = self.by_slot.get(slot)
            if owned is not None and owned.topic_id == topic_id:
                self._withdraw(owned)

    def _withdraw(self, owned: OwnedPartition) -> None:
        del self.by_slot[owned.slot]
        topic = self.image.topics.get(owned.name.topic)
        self.deleted.left(owned, is_deleted=topic is None or topic.id.bytes != owned.topic_id)
        self._loader.discard(owned)
        self._moves.withdrawn(owned)
        owned.state = STATE_DELETING
        self._table.publish(owned.slot, owned.published(self._table.read(owned.slot)))
        delay_ms = 0
        if owned.log is not None:
            if owned.log_dir not in self._short:
                delay_ms = owned.log.config.file_delete_delay_ms
            owned.log.abandon()
            owned.log = None
        self._changes.withdrawn.append(owned)
        due_ms = monotonic_ms() + delay_ms
        self._deletions.append(_DeletedPartition(owned, due_ms, self._registry.grace_marks()))
        self.unattempted += 1
        # At once: a client waits for the slot of this partition.
        self._check_due_ms = 0

    def skip_delays(self, log_dir: int) -> None:
        """The directory is short of space: remove its deleted partitions as soon as no reader is left."""
        for row in self._deletions:
            if row.owned.log_dir == log_dir:
                row.due_ms = self._check_due_ms = 0

    def _rename_directory(self, row: _DeletedPartition, now_ms: int) -> Path | None:
        """Free the name for the next topic; None if the rename failed. The partition may not be loaded yet.

        The deletion ends only after the rename: the next start would take over a directory without a topic.
        """
        owned = row.owned
        directory = Path(self._config.log_dirs.log_dirs[owned.log_dir]) / str(owned.name)
        renamed = directory.with_name(marked_directory_name(owned.name, uuid4().hex, "delete"))
        try:
            # A topic may be deleted before its partitions have directories.
            with suppress(FileNotFoundError), storage_errors(str(directory)):
                os.rename(directory, renamed)
        except StorageFailed as error:
            if not row.retry_ms:
                log.error("cannot rename the directory of deleted partition %s, retrying: %s", owned.name, error)
                self._outbox.notify_controller(RemovalFailed(owned.slot, str(error), isinstance(error, NoSpaceLeft)))
            row.retry_ms = now_ms + RENAME_RETRY_MS
            return None
        return renamed

    @property
    def removal_due_ms(self) -> int | None:
        """When `remove_deleted` is due."""
        return self._check_due_ms

    def remove_deleted(self, now_ms: int) -> None:
        """Rename directories and free slots of deleted partitions for a few milliseconds; a thread removes files."""
        if self._check_due_ms is not None and self._check_due_ms <= now_ms:
            self._check_deletions(now_ms, time.monotonic() + STEP_S)

    def close(self) -> None:
        """The next start removes the remaining directories."""
        self._removals.close()

    def _check_deletions(self, now_ms: int, until_s: float) -> None:
        """Each deletion once, until the time is up; the next call begins with the others."""
        freed: dict[bytes, list[int]] = {}
        unchecked = len(self._deletions)
        while unchecked:
            unchecked -= 1
            row = self._deletions.popleft()
            if self._continue_deletion(row, now_ms, freed):
                self._deletions.append(row)
            if time.monotonic() >= until_s:
                break
        for topic_id, slots in freed.items():
            self._outbox.notify_controller(DirectoriesRemoved(topic_id, slots))
        if unchecked:
            self._check_due_ms = 0
        elif retries := [row.retry_ms for row in self._deletions if row.slot >= 0]:
            self._check_due_ms = max(min(retries), now_ms + GRACE_CHECK_MS)
        else:
            self._check_due_ms = min((row.due_ms for row in self._deletions), default=None)

    def _continue_deletion(self, row: _DeletedPartition, now_ms: int, freed: dict[bytes, list[int]]) -> bool:
        """False when the deletion is complete."""
        self.unattempted -= row.is_unattempted
        row.is_unattempted = False
        if row.directory is None and row.owned.log_dir >= 0:
            if row.retry_ms <= now_ms:
                row.directory = self._rename_directory(row, now_ms)
            if row.directory is None:
                return True
        if row.slot >= 0 and self._registry.has_grace_ended(row.marks):
            self._table.clear(row.slot)
            freed.setdefault(row.owned.topic_id, []).append(row.slot)
            row.slot = -1
        if row.slot >= 0 or row.due_ms > now_ms:
            return True
        if row.directory is not None:
            self._removals.add(row.directory)
        return False
