"""Moves partitions of this worker to other log directories.

Threads (`num.replica.alter.log.dirs.threads`) copy some partitions at a time, throttled to
`replica.alter.log.dirs.io.max.bytes.per.second`. The loop copies the last bytes itself; then the log continues in the
new directory, in a new generation. The old directory is renamed when no reader can be about to open its files, and only
then the controller is notified.
"""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.free_space import measure_free_space
from kafkad.adapters.files.log_copy import copy_bytes, copy_small_files, find_copied
from kafkad.adapters.files.moved_directory import (
    create_future,
    forget_source,
    future_directory,
    moved_from,
    rename_future,
)
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.adapters.shared_memory.process_registry import ProcessRegistry
from kafkad.config.entities.broker import BrokerConfig
from kafkad.core.controller.image import Partition
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.relocation import CopyBytes, CopyFiles, FindCopied, Relocation, Step, complete_copy
from kafkad.core.log.segments.layout import LOG, PARTITION_METADATA, directory_name, file_name
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.processes.worker.disks.disk_space import DiskSpace
from kafkad.processes.worker.moving.copy_rate import CopyRate
from kafkad.processes.worker.moving.old_directories import OldDirectories
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.slots import Slots
from kafkad.wire.processes.controller_messages import PartitionMoved

log = logging.getLogger(__name__)

AT_A_TIME = 8 << 20
"""The maximum bytes of one step."""


class _Copy:
    """The running copy of a partition."""

    __slots__ = ("due_ms", "folder", "owned", "relocation", "running", "source", "step", "target")

    def __init__(self, owned: OwnedPartition, source: str, folder: Path, relocation: Relocation) -> None:
        self.owned = owned
        self.target = owned.future_dir
        self.source = source
        self.folder = folder
        self.relocation = relocation
        self.running: Future[dict[str, int]] | None = None
        self.step: Step | None = None
        self.due_ms = 0


class Moves:
    """`at_a_time` partitions are copied, by this worker's share of `replica.alter.log.dirs.io.max.bytes.per.second`."""

    def __init__(
        self,
        log_dirs: Sequence[str],
        files: FileCache,
        registry: ProcessRegistry,
        *,
        at_a_time: int,
        config: BrokerConfig,
        outbox: Outbox,
        slots: Slots,
        disk_space: DiskSpace,
    ) -> None:
        self._log_dirs = log_dirs
        self._files = files
        self._registry = registry
        self._outbox = outbox
        self._slots = slots
        self._disk_space = disk_space
        self._requested: dict[OwnedPartition, bool] = {}
        """The requested moves in order, with whether an earlier incarnation may have begun the copy."""
        self._at_a_time = at_a_time
        self._copies: dict[OwnedPartition, _Copy] = {}
        self._copy_rate = CopyRate()
        self._old_directories = OldDirectories(registry, self._directory_freed)
        self._threads = HelperThreads(at_a_time, "move")
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when a step has ended."""
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """The options of the broker have changed."""
        rate = config.values["replica.alter.log.dirs.io.max.bytes.per.second"]
        assert isinstance(rate, int), "it is an integer option"
        self._rate = -(-rate // len(self._registry.role("worker")))
        """This worker's share, in bytes per second."""

    # Changes of the metadata.

    def added(self, owned: OwnedPartition, row: Partition, *, replaces_dead_worker: bool) -> None:
        """A partition is new to this worker. An earlier incarnation may have moved it without notifying the controller,
        or died before the move was cancelled.
        """
        if replaces_dead_worker:
            for log_dir in set(range(len(self._log_dirs))) - {row.future_dir}:
                future = future_directory(self._log_dirs[log_dir], owned.name, owned.topic_id)
                if os.path.exists(future):  # False also if the disk fails.
                    self._old_directories.remove(future, owned)
        if row.future_dir < 0 or row.log_dir < 0:
            return
        live = self._live_directory(row.future_dir, owned)
        try:
            source = moved_from(live)
        except StorageFailed as error:
            # The log may be there: the other directory must not begin empty.
            owned.log_dir = row.future_dir
            self._outbox.log_dir_failed(row.future_dir, str(error))
            return
        if source == self._log_dirs[row.log_dir]:
            owned.log_dir = owned.future_dir = row.future_dir
            self._old_directories.add(owned, self._live_directory(row.log_dir, owned))
        else:
            self._request(owned, row.future_dir, is_resumed=True)

    def changed(self, owned: OwnedPartition, row: Partition) -> None:
        """The metadata of a partition of this worker has changed: a requested, cancelled or confirmed move."""
        if owned.future_dir == owned.log_dir:
            if row.log_dir == owned.log_dir:
                owned.future_dir = -1
                self._outbox.touched(owned)
                self._old_directories.forget(owned, self._live_directory(owned.log_dir, owned))
            elif not self._old_directories.has(owned):
                # Notify the next incarnation of the controller.
                self._outbox.notify_controller(
                    PartitionMoved(owned.topic_id, owned.name.partition, owned.log_dir, owned.log_dir)
                )
                return
            else:
                return
        if row.future_dir in (owned.future_dir, owned.log_dir):
            return
        if owned.is_moving:
            self._cancel(owned, removes=True)
            self._outbox.touched(owned)
        if row.future_dir >= 0 and row.log_dir >= 0:
            self._request(owned, row.future_dir)

    def _request(self, owned: OwnedPartition, target: int, *, is_resumed: bool = False) -> None:
        owned.future_dir, owned.future_end, owned.future_bytes = target, 0, 0
        self._requested[owned] = is_resumed
        self._outbox.touched(owned)

    def withdrawn(self, owned: OwnedPartition) -> None:
        """The topic was deleted: free the names of its directories for the next topic."""
        self._cancel(owned, removes=True)
        self._old_directories.free_names_of(owned)

    def failed(self, owned: OwnedPartition) -> None:
        """Its log directory is offline. The next start resumes the copy."""
        self._cancel(owned, removes=False)

    def _cancel(self, owned: OwnedPartition, *, removes: bool) -> None:
        self._requested.pop(owned, None)
        target, owned.future_dir = owned.future_dir, -1
        owned.future_end = owned.future_bytes = 0
        self._copies.pop(owned, None)
        if removes and target >= 0 and target != owned.log_dir:
            self._old_directories.remove(future_directory(self._log_dirs[target], owned.name, owned.topic_id), owned)

    # Copying.

    @property
    def next_deadline_ms(self) -> int | None:
        deadlines = [] if self._old_directories.next_check_ms is None else [self._old_directories.next_check_ms]
        deadlines += [copy.due_ms for copy in self._copies.values() if copy.running is None]
        if len(self._copies) < self._at_a_time and self._next_requested() is not None:
            deadlines.append(0)
        return min(deadlines, default=None)

    def tick(self, now_ms: int) -> None:
        self._old_directories.tick(now_ms)
        for _ in range(self._at_a_time - len(self._copies)):
            self._begin()
        for copy in list(self._copies.values()):
            if copy.running is None and now_ms >= copy.due_ms:
                self._resume(copy, now_ms)
                if copy.step is None:
                    # This loop has copied the last bytes of a log: other copies wait for the next pass.
                    break

    def _next_requested(self) -> OwnedPartition | None:
        """Partitions that are not loaded wait, and those with a pending swap, which may replace segments."""
        return next((owned for owned in self._requested if owned.is_online and _may_be_copied(owned.log)), None)

    def _begin(self) -> None:
        owned = self._next_requested()
        if owned is None:
            return
        is_resumed = self._requested.pop(owned)
        partition_log = owned.log
        assert partition_log is not None
        target = self._log_dirs[owned.future_dir]
        folder = future_directory(target, owned.name, owned.topic_id)
        is_resumed = is_resumed and os.path.exists(folder)
        relocation = Relocation(partition_log, is_resumed=is_resumed)
        try:
            # The note of an earlier move is obsolete.
            forget_source(self._live_directory(owned.log_dir, owned))
            if not is_resumed:
                self._old_directories.remove(folder, owned)
                self._check_space(target, relocation)
            create_future(folder, owned.topic_id, is_resumed=is_resumed)
        except (StorageFailed, FileNotFoundError) as error:
            self._abandon(owned, error)
            return
        self._copies[owned] = _Copy(owned, str(self._live_directory(owned.log_dir, owned)), folder, relocation)
        log.info("moving %s to %s", owned.name, target)

    def _check_space(self, target: str, relocation: Relocation) -> None:
        space = measure_free_space(target)
        if relocation.missing_bytes > space.free_bytes - self._disk_space.min_free_bytes(space.total_bytes):
            raise NoSpaceLeft(f"{target} lacks space for {relocation.missing_bytes} bytes")

    def _resume(self, copy: _Copy, now_ms: int) -> None:
        owned = copy.owned
        if owned.log is None or not owned.is_online:
            self.failed(owned)
            return
        rate = self._rate
        copy.due_ms = self._copy_rate.due_ms(rate, now_ms)
        if now_ms < copy.due_ms:
            return
        if not copy.relocation.is_valid:
            # The log was truncated: the copy may have records that are not in the log any more.
            self._restart(copy)
            return
        copy.step = copy.relocation.next_step(min(AT_A_TIME, max(rate, 1)))
        if copy.step is None:
            self._complete(copy)
        else:
            copy.running = self._threads.submit(_perform, copy.source, str(copy.folder), copy.step)
            copy.running.add_done_callback(self._ring)

    def _restart(self, copy: _Copy) -> None:
        del self._copies[copy.owned]
        self._request(copy.owned, copy.target)

    def _ring(self, _done: object) -> None:
        """Called by a thread: wake the loop."""
        os.eventfd_write(self.doorbell, 1)

    def rung(self, _events: int) -> None:
        """Steps have ended, perhaps of cancelled moves."""
        os.eventfd_read(self.doorbell)
        for copy in list(self._copies.values()):
            running = copy.running
            if running is not None and running.done():
                copy.running = None
                self._step_completed(copy, running)

    def _step_completed(self, copy: _Copy, running: Future[dict[str, int]]) -> None:
        error = running.exception()
        if isinstance(error, FileNotFoundError) and not isinstance(copy.step, FindCopied) and not _has_segment(copy):
            # Retention has removed the segment meanwhile.
            copy.due_ms = 0
        elif isinstance(error, StorageFailed | FileNotFoundError):
            self._abandon(copy.owned, error)
        elif error is not None:
            raise error
        elif isinstance(copy.step, FindCopied):
            self._found(copy, running.result())
        elif copy.step is not None:
            self._copied(copy, copy.step)

    def _found(self, copy: _Copy, copied: dict[str, int]) -> None:
        copy.relocation.found(copied)
        copy.due_ms = 0
        try:
            self._check_space(self._log_dirs[copy.target], copy.relocation)
        except StorageFailed as error:
            self._abandon(copy.owned, error)
            return
        if copied:
            log.info("resuming the move of %s: %d segments are already copied", copy.owned.name, len(copied))

    def _copied(self, copy: _Copy, step: CopyBytes | CopyFiles) -> None:
        owned, relocation = copy.owned, copy.relocation
        before = relocation.size_bytes
        relocation.done(step)
        self._copy_rate.copied(max(0, relocation.size_bytes - before), self._rate, monotonic_ms())
        copy.due_ms = 0
        owned.future_end, owned.future_bytes = relocation.end_offset, relocation.size_bytes
        if owned.log is not None:
            self._outbox.touched(owned)

    def _complete(self, copy: _Copy) -> None:
        owned = copy.owned
        partition_log = owned.log
        assert partition_log is not None
        source = owned.log_dir
        try:
            complete_copy(partition_log, copy.relocation, SegmentFiles(copy.folder, self._files))
            live = rename_future(copy.folder, owned.name, self._log_dirs[source])
        except (StorageFailed, FileNotFoundError) as error:
            self._abandon(owned, error)
            return
        del self._copies[owned]
        up_to = copy.relocation.synced_up_to
        partition_log.relocate_to(SegmentFiles(live, self._files), synced_up_to=up_to, now_ms=wall_clock_ms())
        owned.log_dir = copy.target
        owned.future_end, owned.future_bytes = 0, 0
        self._slots.publish(owned)
        self._outbox.touched(owned)
        self._old_directories.add(owned, self._live_directory(source, owned))
        log.info("moved %s from %s to %s", owned.name, self._log_dirs[source], self._log_dirs[copy.target])

    def _abandon(self, owned: OwnedPartition, error: Exception) -> None:
        target = owned.future_dir
        source = self._log_dirs[owned.log_dir]
        log.error("cannot move %s from %s to %s: %s", owned.name, source, self._log_dirs[target], error)
        self._cancel(owned, removes=True)
        self._outbox.touched(owned)
        self._outbox.notify_controller(PartitionMoved(owned.topic_id, owned.name.partition, owned.log_dir, target))

    def _directory_freed(self, owned: OwnedPartition) -> None:
        """The old directory of a moved partition is renamed."""
        self._outbox.files_removed(owned.slot)
        self._outbox.notify_controller(
            PartitionMoved(owned.topic_id, owned.name.partition, owned.log_dir, owned.log_dir)
        )

    def _live_directory(self, log_dir: int, owned: OwnedPartition) -> Path:
        return Path(self._log_dirs[log_dir]) / directory_name(owned.name)

    def close(self) -> None:
        """The next start resumes running copies. No reader is left."""
        self._threads.close(cancel=True)
        self._old_directories.close()
        os.close(self.doorbell)


def _may_be_copied(partition_log: PartitionLog | None) -> bool:
    return partition_log is not None and partition_log.segments.pending_swap is None


def _has_segment(copy: _Copy) -> bool:
    """Whether the log still has the segment of the last step."""
    assert isinstance(copy.step, CopyBytes | CopyFiles)
    partition_log = copy.owned.log
    return partition_log is not None and copy.step.base_offset in partition_log.segments.base_offsets


def _perform(source: str, folder: str, step: Step) -> dict[str, int]:
    """Called by a thread. Returns the result of `FindCopied`, otherwise nothing."""
    if isinstance(step, FindCopied):
        return find_copied(source, folder, step.names, PARTITION_METADATA)
    name = file_name(step.base_offset, LOG)
    if isinstance(step, CopyBytes):
        copy_bytes(f"{source}/{name}", f"{folder}/{name}", step.start, step.end, sync=step.sync)
    else:
        copy_small_files(source, folder, step.names, name)
    return {}
