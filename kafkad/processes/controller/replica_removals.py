"""The removed replicas whose owner has not freed the slot yet. If the owner dies, this process removes the replica.

A slot is reused only after it is freed (see `UnreferencedSlots`). If a directory can't be renamed, it stays, and its
log directory counts as failed, as in Apache Kafka.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from uuid import UUID, uuid4

from kafkad.adapters.files.directory_removal import DirectoryRemovals
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.core.controller.deltas import MetadataDelta, ReplicasRemoved
from kafkad.core.controller.image import MetadataImage, Partition
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.failover_state import UnreferencedSlots
from kafkad.processes.controller.log_dirs import sync_names

log = logging.getLogger(__name__)


class ReplicaRemovals:
    """The removals of this broker."""

    def __init__(
        self,
        table: PartitionTable,
        directories: Sequence[LogDirectory],
        unremoved: set[TopicPartition],
        unreferenced_slots: Iterable[int] = (),
    ) -> None:
        """`unremoved` are the known replicas whose directories can't be renamed."""
        self._table = table
        self._directories = directories
        self._unreferenced_slots = UnreferencedSlots(table, unreferenced_slots)
        self._removals = DirectoryRemovals()
        self._pending: dict[int, tuple[int, UUID, TopicPartition, Partition]] = {}
        """(metadata version of the removal, topic id, partition, its last row) by slot."""
        self._workers: set[int] = set()
        self._unremoved = unremoved
        self._failed: dict[int, str] = {}
        self.offline: Collection[int] = ()
        """The log directories that have failed."""

    def remove_leftovers(self, paths: Iterable[Path]) -> None:
        """Remove directories that an earlier run of the broker has renamed for removal."""
        for path in paths:
            self._removals.add(path)

    def began(self, before: MetadataImage, changes: Iterable[MetadataDelta]) -> None:
        """Note the replicas that `changes` removed; `before` still has them."""
        for delta in changes:
            for change in delta.changes:
                if isinstance(change, ReplicasRemoved):
                    self._note(delta.version, before, change)

    def sync(self) -> bool:
        """Sync the names in the log directories: after a power failure no deleted replica may be back. Returns whether
        all are on disk.
        """
        failed = sync_names(self._directories, self.offline)
        self._failed |= failed
        return not failed

    def take_failed(self) -> dict[int, str]:
        """The log directories that have failed since the last call, with the cause."""
        taken, self._failed = self._failed, {}
        return taken

    def _note(self, version: int, before: MetadataImage, change: ReplicasRemoved) -> None:
        rows = {row.slot: row for row in before.topics[change.name].partitions}
        for slot in change.slots:
            row = rows[slot]
            self._pending[slot] = (version, change.id, TopicPartition(change.name, row.index), row)
            if row.owner not in self._workers:
                self._remove(slot)

    def removed(self, slots: Iterable[int]) -> None:
        """A worker has renamed the directories and freed these slots."""
        for slot in slots:
            pending = self._pending.pop(slot, None)
            if pending is not None:
                self._unremoved.discard(pending[2])

    def failed(self, slot: int, cause: str, *, is_full: bool) -> None:
        """A worker can't rename the directory: unless it `is_full`, the log directory has failed."""
        pending = self._pending.get(slot)
        if pending is not None:
            _, _, partition, row = pending
            self._unremoved.add(partition)
            if not is_full:
                self._failed[row.log_dir] = cause

    def under_way(self) -> set[TopicPartition]:
        """The replicas whose directories the workers may not have renamed yet."""
        return {partition for _, _, partition, _ in self._pending.values()}

    def worker_linked(self, worker: int) -> None:
        self._workers.add(worker)

    def worker_ended(self, worker: int) -> None:
        """Remove its pending replicas here: its next incarnation does not get these removals."""
        self._workers.discard(worker)
        for slot, (_, _, _, row) in list(self._pending.items()):
            if row.owner == worker:
                self._remove(slot)

    def _remove(self, slot: int) -> None:
        _, topic_id, partition, row = self._pending.pop(slot)
        if self._table.read(slot).topic_id == topic_id.bytes:
            self._table.clear(slot)
        if row.log_dir < 0:
            return
        home = self._directories[row.log_dir]
        if not (home.path / str(partition)).exists():
            return
        try:
            self._removals.add(home.mark_leaving(partition, uuid4().hex, "delete"))
        except StorageFailed as error:
            log.error("%s was removed, its directory can't be renamed: %s", partition, error)
            self._unremoved.add(partition)
            if not isinstance(error, NoSpaceLeft):
                self._failed[row.log_dir] = str(error)

    def reusable(self, applied: int) -> int:
        """Slots freed up to this metadata version may be reused."""
        if not self._unreferenced_slots.are_freed():
            return 0
        oldest = min((version for version, *_ in self._pending.values()), default=applied + 1)
        return min(applied, oldest - 1)

    def close(self) -> None:
        """The next start removes the remaining directories."""
        self._removals.close()
