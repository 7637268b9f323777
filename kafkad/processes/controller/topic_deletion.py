"""Tracks deleted topics until their last directory is removed, also if the responsible worker dies.

A slot is reused only after its worker has freed it: freeing is a write, which would hit the next partition in the
slot.
"""

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from uuid import uuid4

from kafkad.adapters.files.directory_removal import DirectoryRemovals
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.files.moved_directory import future_directory, mark_for_deletion
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.core.controller.controller import Controller
from kafkad.core.controller.deltas import MetadataDelta, TopicDeleted
from kafkad.core.controller.image import MetadataImage, Topic
from kafkad.core.controller.startup.reconciliation import Reconciliation
from kafkad.core.log.segments.layout import directory_name
from kafkad.core.ports import StorageFailed
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.failover_state import UnreferencedSlots
from kafkad.processes.controller.log_dirs import sync_names

log = logging.getLogger(__name__)


class TopicDeletions:
    """Deletions that this incarnation of the controller has begun, found in the store, or inherited as slots."""

    def __init__(
        self,
        controller: Controller,
        table: PartitionTable,
        directories: Sequence[LogDirectory],
        *,
        unreferenced_slots: Iterable[int] = (),
    ) -> None:
        self._controller = controller
        self._table = table
        self._directories = directories
        self._topics: dict[bytes, tuple[int, Topic]] = {}
        self._unreferenced_slots = UnreferencedSlots(table, unreferenced_slots)
        self._removals = DirectoryRemovals()
        self._workers: set[int] = set()
        """Workers with an incarnation to which metadata is sent."""

    def began(self, before: MetadataImage, changes: Iterable[MetadataDelta]) -> None:
        """Note the topics that `changes` deleted; `before` still has them.

        A dead worker is not notified: the metadata of its next incarnation does not have the topics.
        """
        for delta in changes:
            for change in delta.changes:
                topic = before.topics.get(change.name) if isinstance(change, TopicDeleted) else None
                if topic is not None and topic.name in self._controller.deletions:
                    self._topics[topic.id.bytes] = (delta.version, topic)
                    for worker in {row.owner for row in topic.partitions if row.owner >= 0} - self._workers:
                        self._remove_for(worker, topic)

    def removed(self, topic_id: bytes, slots: list[int]) -> None:
        """A worker has removed the files and slots of these partitions."""
        deleted = self._topics.get(topic_id)
        if deleted is not None and self._controller.slots_deleted(deleted[1].id, slots):
            del self._topics[topic_id]

    def worker_linked(self, worker: int) -> None:
        """From now on the worker gets deletions and performs them."""
        self._workers.add(worker)

    def worker_ended(self, worker: int) -> None:
        """The controller removes what the dead worker had to remove; no other process writes to its slots."""
        self._workers.discard(worker)
        for _, topic in list(self._topics.values()):
            self._remove_for(worker, topic)

    def _remove_for(self, worker: int, topic: Topic) -> None:
        pending = self._controller.deletions.get(topic.name)
        remaining = pending.remaining if pending is not None else set()
        slots = []
        for row in topic.partitions:
            if row.owner == worker and row.index in remaining:
                self._free(row.slot, topic.id.bytes)
                partition = TopicPartition(topic.name, row.index)
                is_aside = row.log_dir < 0 or self._set_aside(self._directories[row.log_dir], partition)
                if row.future_dir >= 0:
                    is_aside &= self._set_aside_move(self._directories[row.future_dir], topic, partition)
                # Otherwise the next start completes the deletion.
                if is_aside:
                    slots.append(row.slot)
        if slots:
            self.removed(topic.id.bytes, slots)

    def _free(self, slot: int, topic_id: bytes) -> None:
        if self._table.read(slot).topic_id == topic_id:
            self._table.clear(slot)

    def _set_aside(self, home: LogDirectory, partition: TopicPartition) -> bool:
        """Rename the directory at once, as a new topic may need its name; the content is removed later. False if it
        can't be renamed.
        """
        if not os.path.exists(home.path / directory_name(partition)):
            return True
        try:
            self._removals.add(home.mark_leaving(partition, uuid4().hex, "delete"))
        except StorageFailed as error:
            log.error("%s was deleted, its directory can't be renamed: %s", partition, error)
            return False
        return True

    def _set_aside_move(self, target: LogDirectory, topic: Topic, partition: TopicPartition) -> bool:
        """The partition was moving to `target`, or had moved just before its worker died."""
        is_aside = self._set_aside(target, partition)
        try:
            renamed = mark_for_deletion(future_directory(str(target.path), partition, topic.id.bytes), partition)
        except StorageFailed as error:
            log.error("%s was deleted, the directory that it moved to can't be renamed: %s", partition, error)
            return False
        if renamed is not None:
            self._removals.add(renamed)
        return is_aside

    def complete_earlier_deletions(self, found: Reconciliation, *, is_first_incarnation: bool) -> None:
        """Complete deletions of an earlier incarnation.

        Call it when every live worker has applied the first version. A worker still removes directories that are
        renamed already, unless this broker has just been started.
        """
        aside = {TopicPartition(topic, partition) for _, topic, partition in found.deleting}
        for directory, topic, partition in found.deleting:
            if not self._set_aside(self._directories[directory.log_dir], TopicPartition(topic, partition)):
                aside.discard(TopicPartition(topic, partition))
        for at in aside:
            self._controller.partitions_deleted(at.topic, [at.partition])
        for directory in found.leftovers if is_first_incarnation else ():
            self._removals.add(self._directories[directory.log_dir].path / directory.name)

    def finish(self, offline: Collection[int]) -> dict[int, str]:
        """Forget deletions after a sync of the log directories: otherwise a directory could reappear after a power
        failure and be adopted as a topic. Returns the log directories that can't be synced, with the cause.
        """
        failed = sync_names(self._directories, offline)
        if not failed:
            self._controller.finish_deletions()
        return failed

    def close(self) -> None:
        """The next start removes the remaining directories."""
        self._removals.close()

    def acknowledged(self, version: int) -> None:
        """Every live process has applied `version`: slots that their owners have freed may be reused."""
        if not self._unreferenced_slots.are_freed():
            return
        oldest = min((began for began, _ in self._topics.values()), default=version + 1)
        self._controller.acknowledged(min(version, oldest - 1))
