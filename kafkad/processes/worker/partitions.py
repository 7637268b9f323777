"""The partitions that this worker owns, kept in line with the metadata.

The controller decides slot, owner and directory; this module creates, loads, reconfigures and removes logs. A change
counts as applied when its partitions are online, so that a new topic can be used at once.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from kafkad.adapters.files.directory_removal import DirectoryRemovals
from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.adapters.shared_memory.process_registry import GRACE_CHECK_MS, GraceMark, ProcessRegistry
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
from kafkad.core.partition_slot import STATE_DELETING, STATE_OFFLINE, PartitionSlot
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.core.types import TopicPartition
from kafkad.processes.runtime.turns import STEP_S
from kafkad.processes.worker.loading import Loader
from kafkad.processes.worker.moving.moves import Moves
from kafkad.processes.worker.owned import DeletedTopics, OwnedPartition
from kafkad.wire.processes.controller_messages import ControllerMessage, DirectoriesRemoved, RemovalFailed

log = logging.getLogger(__name__)

RENAME_AGAIN_MS = 1000


class _DeletedPartition:
    """A deleted partition; its directory, if any, is removed when no reader can have a handle to it."""

    __slots__ = ("again_ms", "directory", "due_ms", "is_untried", "marks", "owned", "slot")

    def __init__(self, owned: OwnedPartition, due_ms: int, marks: tuple[GraceMark, ...]) -> None:
        self.owned = owned
        self.slot = owned.slot
        self.directory: Path | None = None
        """The renamed directory of its files."""
        self.again_ms = 0
        """When to try again to rename it."""
        self.due_ms = due_ms
        self.marks = marks
        self.is_untried = True


class Partitions:
    """The partitions of worker `worker`, by slot."""

    def __init__(
        self,
        worker: int,
        table: PartitionTable,
        registry: ProcessRegistry,
        loader: Loader,
        moves: Moves,
        config: BrokerConfig,
        *,
        withdrawn: Callable[[OwnedPartition], None],
        role_changed: Callable[[OwnedPartition], None],
        state_changed: Callable[[OwnedPartition], None],
        tell: Callable[[ControllerMessage], None],
        is_short_of_space: Callable[[int], bool],
    ) -> None:
        self.by_slot: dict[int, OwnedPartition] = {}
        self.deleted = DeletedTopics()
        self.image = MetadataImage()
        self._worker = worker
        self._table = table
        self._registry = registry
        self._loader = loader
        self._moves = moves
        self._config = config
        self._withdrawn = withdrawn
        self._role_changed = role_changed
        self._state_changed = state_changed
        self._tell = tell
        self._is_short_of_space = is_short_of_space
        self._leaving: deque[_DeletedPartition] = deque()
        self._look_due_ms: int | None = None
        """When to check deleted partitions again, if there are any."""
        self.untried = 0
        """Deleted partitions whose directories have not been tried to rename: until then they have their names."""
        self._removals = DirectoryRemovals()
        self._odd_configs: dict[str, list[str]] = {}
        """By topic what was said of its configs."""

    @property
    def broker_id(self) -> int:
        return self._config.node_id

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply `delta`; `image` is the metadata after it."""
        self.image = image
        for change in delta.changes:
            match change:
                case TopicCreated(topic):
                    self._take(topic, topic.partitions)
                case PartitionsAdded(name, partitions):
                    self._take(image.topics[name], partitions)
                case PartitionsChanged(name, partitions):
                    self._take(image.topics[name], partitions)
                case TopicDeleted(_, topic_id, slots):
                    self._drop(topic_id.bytes, slots)
                case ReplicasRemoved(_, topic_id, _, slots):
                    self._drop(topic_id.bytes, slots)
                case TopicConfigChanged(name, _):
                    self._reconfigure(image.topics[name])
                case Snapshot():
                    self._take_snapshot(image)

    @property
    def config(self) -> BrokerConfig:
        """The present configuration, with all changes since the start."""
        return self._config

    def configure(self, config: BrokerConfig) -> None:
        """The options of the broker, which all topics inherit, have changed."""
        self._config = config
        self._reconfigure_all()

    def _take_snapshot(self, image: MetadataImage) -> None:
        wanted = {row.slot for topic in image.topics.values() for row in topic.partitions if row.owner == self._worker}
        for slot in [slot for slot in self.by_slot if slot not in wanted]:
            self._drop(self.by_slot[slot].topic_id, (slot,))
        for topic in image.topics.values():
            self._take(topic, topic.partitions)
        self._reconfigure_all()

    def _take(self, topic: Topic, partitions: tuple[Partition, ...]) -> None:
        config: LogConfig | None = None
        for row in partitions:
            if row.owner != self._worker or row.slot < 0:
                continue
            known = self.by_slot.get(row.slot)
            if known is not None and known.topic_id == topic.id.bytes:
                if known.take_state(row, self._config.node_id):
                    self._role_changed(known)
                elif len(row.replicas) > 1:
                    self._state_changed(known)
                self._moves.changed(known, row)
                continue
            config = config or self._log_config(topic)
            self._take_one(topic, row, config)

    def _take_one(self, topic: Topic, row: Partition, config: LogConfig) -> None:
        name = TopicPartition(topic.name, row.index)
        owned = OwnedPartition(name, row.slot, topic.id.bytes, self._worker, row.log_dir, row.leader_epoch)
        owned.take_state(row, self._config.node_id)
        self.by_slot[row.slot] = owned
        before = self._table.read(row.slot)
        self._moves.find(owned, row, follows_a_dead_worker=before.topic_id == owned.topic_id)
        if row.log_dir < 0:
            # Its log directory is offline: nothing is loaded, and the slot must say so.
            owned.state = STATE_OFFLINE
        if before.topic_id != owned.topic_id:
            # Another partition had this slot: its content is not about this one.
            self._table.reset_traffic(row.slot)
            before = PartitionSlot(generation=before.generation + 1)
        self._table.publish(row.slot, owned.published(before))
        if owned.state != STATE_OFFLINE:
            self._loader.add(owned, config, before)

    def _log_config(self, topic: Topic) -> LogConfig:
        self._say_odd_configs(topic)
        return topic_log_config(self._config, topic.configs)

    def _say_odd_configs(self, topic: Topic) -> None:
        """Each once: those that somebody else has stored, and that this version can't use."""
        lines = [f"{name}: {reason}" for name, reason in unreadable_topic_configs(topic.configs).items()]
        lines += [f"{name} is not known to this version" for name in unknown_topic_configs(topic.configs)]
        if lines and self._odd_configs.get(topic.name) != lines:
            log.error("configs of topic %s without effect: %s", topic.name, "; ".join(lines))
            self._odd_configs[topic.name] = lines
        elif not lines:
            self._odd_configs.pop(topic.name, None)

    def _reconfigure(self, topic: Topic) -> None:
        """A log that has its settings keeps them while others can't be read, as in Apache Kafka."""
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

    # Deletion: withdraw the slot, then free the name, then remove the files.

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
            if not self._is_short_of_space(owned.log_dir):
                delay_ms = owned.log.config.file_delete_delay_ms
            owned.log.abandon()
            owned.log = None
        self._withdrawn(owned)
        due_ms = monotonic_ms() + delay_ms
        self._leaving.append(_DeletedPartition(owned, due_ms, self._registry.grace_marks()))
        self.untried += 1
        # At once, even while the files of earlier deletions wait: a client waits for the slot of this partition.
        self._look_due_ms = 0

    def hurry(self, log_dir: int) -> None:
        """The directory is short of room: its deleted partitions go as soon as no reader is left."""
        for row in self._leaving:
            if row.owned.log_dir == log_dir:
                row.due_ms = self._look_due_ms = 0

    def _set_aside(self, row: _DeletedPartition, now_ms: int) -> Path | None:
        """Free its name by renaming the directory; None if that can't be done yet. If the partition was not loaded yet,
        only its name is known.

        Until that is done the deletion is not over: a directory whose topic is forgotten would be taken over by the
        next start.
        """
        owned = row.owned
        directory = Path(self._config.log_dirs.log_dirs[owned.log_dir]) / str(owned.name)
        leaving = directory.with_name(marked_directory_name(owned.name, uuid4().hex, "delete"))
        try:
            # A topic may be deleted before its partitions have directories.
            with suppress(FileNotFoundError), storage_errors(str(directory)):
                os.rename(directory, leaving)
        except StorageFailed as error:
            if not row.again_ms:
                log.error("%s was deleted, its directory can't be renamed yet: %s", owned.name, error)
                self._tell(RemovalFailed(owned.slot, str(error), isinstance(error, NoSpaceLeft)))
            row.again_ms = now_ms + RENAME_AGAIN_MS
            return None
        return leaving

    @property
    def removal_due_ms(self) -> int | None:
        """When `remove_left` is due."""
        return self._look_due_ms

    def remove_left(self, now_ms: int) -> None:
        """Free the names and slots of deleted partitions for a few milliseconds; a thread removes their files."""
        if self._look_due_ms is not None and self._look_due_ms <= now_ms:
            self._look_at_leaving(now_ms, time.monotonic() + STEP_S)

    def close(self) -> None:
        """The next start removes the remaining directories."""
        self._removals.close()

    def _look_at_leaving(self, now_ms: int, until_s: float) -> None:
        """Each once, as far as time allows; the rest come first the next time."""
        freed: dict[bytes, list[int]] = {}
        unlooked = len(self._leaving)
        while unlooked:
            unlooked -= 1
            row = self._leaving.popleft()
            if self._stays(row, now_ms, freed):
                self._leaving.append(row)
            if time.monotonic() >= until_s:
                break
        for topic_id, slots in freed.items():
            self._tell(DirectoriesRemoved(topic_id, slots))
        if unlooked:
            self._look_due_ms = 0
        elif waiting := [row.again_ms for row in self._leaving if row.slot >= 0]:
            self._look_due_ms = max(min(waiting), now_ms + GRACE_CHECK_MS)
        else:
            self._look_due_ms = min((row.due_ms for row in self._leaving), default=None)

    def _stays(self, row: _DeletedPartition, now_ms: int, freed: dict[bytes, list[int]]) -> bool:
        """False when it has left."""
        self.untried -= row.is_untried
        row.is_untried = False
        if row.directory is None and row.owned.log_dir >= 0:
            if row.again_ms <= now_ms:
                row.directory = self._set_aside(row, now_ms)
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

    def take_offline(self, log_dir: int) -> list[OwnedPartition]:
        """A log directory has failed: its partitions answer KAFKA_STORAGE_ERROR from now on."""
        lost = [owned for owned in self.by_slot.values() if owned.log_dir == log_dir and owned.state != STATE_OFFLINE]
        for owned in lost:
            owned.state = STATE_OFFLINE
            self._moves.failed(owned)
        return lost
