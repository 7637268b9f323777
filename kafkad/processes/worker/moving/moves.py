"""Which partitions of this worker are being moved to another log directory, and how far is each?

Some at a time are copied, by threads (`num.replica.alter.log.dirs.threads`), in pieces that
`replica.alter.log.dirs.io.max.bytes.per.second` spaces out. What is left at the end this loop copies itself; then the
log goes on in the new directory, under a new generation. The old directory loses its name when no reader can be about
to open it, and only then the controller hears of the move.
"""

import logging
import os
from collections.abc import Callable, Sequence
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
from kafkad.core.controller.image import Partition
from kafkad.core.free_space import least_free_bytes
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.relocation import CopyBytes, CopyFiles, FindCopied, Relocation, Step, complete_copy
from kafkad.core.log.segments.layout import LOG, PARTITION_METADATA, directory_name, file_name
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.processes.worker.moving.copy_rate import CopyRate
from kafkad.processes.worker.moving.left_directories import LeftDirectories
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.controller_messages import ControllerMessage, PartitionMoved

log = logging.getLogger(__name__)

AT_A_TIME = 8 << 20
"""Bytes that are copied before the next decision."""


class _Copy:
    """A partition that is being copied."""

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
    """`at_a_time` partitions are copied. `rate` is the most bytes a second of this worker, `least_free`
    kafkad.log.dirs.min.free.bytes. `publish` gets a partition whose slot has to be written at once, `tell` goes to the
    controller, `files_removed` to the readers; `failed` takes a log directory offline.
    """

    def __init__(
        self,
        log_dirs: Sequence[str],
        files: FileCache,
        registry: ProcessRegistry,
        *,
        at_a_time: int,
        rate: Callable[[], int],
        least_free: Callable[[], int | None],
        publish: Callable[[OwnedPartition], None],
        touched: Callable[[OwnedPartition], None],
        tell: Callable[[ControllerMessage], None],
        files_removed: Callable[[list[int]], None],
        failed: Callable[[int, str], None],
    ) -> None:
        self._log_dirs = log_dirs
        self._files = files
        self._registry = registry
        self._rate = rate
        self._least_free = least_free
        self._publish = publish
        self._touched = touched
        self._tell = tell
        self._files_removed = files_removed
        self._failed = failed
        self._wanted: dict[OwnedPartition, bool] = {}
        """In the order in which they came; whether an earlier incarnation may have begun."""
        self._at_a_time = at_a_time
        self._copies: dict[OwnedPartition, _Copy] = {}
        self._copy_rate = CopyRate()
        self._left = LeftDirectories(registry, self._is_left)
        self._threads = HelperThreads(at_a_time, "move")
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when a piece was copied."""

    # What the metadata says.

    def find(self, owned: OwnedPartition, row: Partition, *, follows_a_dead_worker: bool) -> None:
        """A partition that is new to this worker. An earlier incarnation may have moved it, and died before the
        controller heard of it; or it died first, and then the move was ended.
        """
        if follows_a_dead_worker:
            for log_dir in set(range(len(self._log_dirs))) - {row.future_dir}:
                future = future_directory(self._log_dirs[log_dir], owned.name, owned.topic_id)
                if os.path.exists(future):  # False as well if the disk fails: what is there stays.
                    self._left.remove(future, owned)
        if row.future_dir < 0 or row.log_dir < 0:
            return
        live = self._live(row.future_dir, owned)
        try:
            source = moved_from(live)
        except StorageFailed as error:
            # It may be there: the other directory must not begin empty.
            owned.log_dir = row.future_dir
            self._failed(row.future_dir, str(error))
            return
        if source == self._log_dirs[row.log_dir]:
            owned.log_dir = owned.future_dir = row.future_dir
            self._left.add(owned, self._live(row.log_dir, owned))
        else:
            self._want(owned, row.future_dir, is_resumed=True)

    def changed(self, owned: OwnedPartition, row: Partition) -> None:
        """The controller has decided about a partition that is here already, or has heard of a move."""
        if owned.future_dir == owned.log_dir:
            if row.log_dir == owned.log_dir:
                owned.future_dir = -1
                self._touched(owned)
                self._left.forget(owned, self._live(owned.log_dir, owned))
            elif not self._left.has(owned):
                # Its earlier incarnation had heard, this one has not.
                self._tell(PartitionMoved(owned.topic_id, owned.name.partition, owned.log_dir, owned.log_dir))
                return
            else:
                return
        if row.future_dir in (owned.future_dir, owned.log_dir):
            return
        if owned.is_moving:
            self._drop(owned, removes=True)
            self._touched(owned)
        if row.future_dir >= 0 and row.log_dir >= 0:
            self._want(owned, row.future_dir)

    def _want(self, owned: OwnedPartition, target: int, *, is_resumed: bool = False) -> None:
        owned.future_dir, owned.future_end, owned.future_bytes = target, 0, 0
        self._wanted[owned] = is_resumed
        self._touched(owned)

    def withdrawn(self, owned: OwnedPartition) -> None:
        """The topic was deleted: nothing of the partition may keep a name that the next topic needs."""
        self._drop(owned, removes=True)
        self._left.free_names_of(owned)

    def failed(self, owned: OwnedPartition) -> None:
        """Its log directory is offline. What was copied stays, and the next start goes on with it."""
        self._drop(owned, removes=False)

    def _drop(self, owned: OwnedPartition, *, removes: bool) -> None:
        self._wanted.pop(owned, None)
        target, owned.future_dir = owned.future_dir, -1
        owned.future_end = owned.future_bytes = 0
        self._copies.pop(owned, None)
        if removes and target >= 0 and target != owned.log_dir:
            self._left.remove(future_directory(self._log_dirs[target], owned.name, owned.topic_id), owned)

    # Copying.

    @property
    def next_deadline_ms(self) -> int | None:
        deadlines = [] if self._left.next_check_ms is None else [self._left.next_check_ms]
        deadlines += [copy.due_ms for copy in self._copies.values() if copy.running is None]
        if len(self._copies) < self._at_a_time and self._next() is not None:
            deadlines.append(0)
        return min(deadlines, default=None)

    def tick(self, now_ms: int) -> None:
        self._left.look(now_ms)
        for _ in range(self._at_a_time - len(self._copies)):
            self._begin()
        for copy in list(self._copies.values()):
            if copy.running is None and now_ms >= copy.due_ms:
                self._resume(copy, now_ms)
                if copy.step is None:
                    # It was the rest of a log, which this loop copies itself: another one's waits for the next pass.
                    break

    def _next(self) -> OwnedPartition | None:
        """Those that are not loaded yet have to wait, and those of which a swap is begun: it is given up, or its files
        take the place of what would have been copied.
        """
        return next((owned for owned in self._wanted if owned.is_online and _may_be_copied(owned.log)), None)

    def _begin(self) -> None:
        owned = self._next()
        if owned is None:
            return
        is_resumed = self._wanted.pop(owned)
        partition_log = owned.log
        assert partition_log is not None
        target = self._log_dirs[owned.future_dir]
        folder = future_directory(target, owned.name, owned.topic_id)
        is_resumed = is_resumed and os.path.exists(folder)
        relocation = Relocation(partition_log, is_resumed=is_resumed)
        try:
            # What an earlier move has left says nothing any more, and could be taken for this one's.
            forget_source(self._live(owned.log_dir, owned))
            if not is_resumed:
                self._left.remove(folder, owned)
                self._check_space(target, relocation)
            create_future(folder, owned.topic_id, is_resumed=is_resumed)
        except (StorageFailed, FileNotFoundError) as error:
            self._abandon(owned, error)
            return
        self._copies[owned] = _Copy(owned, str(self._live(owned.log_dir, owned)), folder, relocation)
        log.info("%s is being moved to %s", owned.name, target)

    def _check_space(self, target: str, relocation: Relocation) -> None:
        room = measure_free_space(target)
        least = least_free_bytes(self._least_free(), room.total_bytes)
        if relocation.missing_bytes > room.free_bytes - least:
            raise NoSpaceLeft(f"{relocation.missing_bytes} bytes don't fit into {target}")

    def _resume(self, copy: _Copy, now_ms: int) -> None:
        owned = copy.owned
        if owned.log is None or not owned.is_online:
            self.failed(owned)
            return
        rate = self._rate()
        copy.due_ms = self._copy_rate.due_ms(rate, now_ms)
        if now_ms < copy.due_ms:
            return
        if not copy.relocation.is_valid:
            # The log was truncated: what was copied may not be in it any more.
            self._begin_anew(copy)
            return
        copy.step = copy.relocation.next_step(min(AT_A_TIME, max(rate, 1)))
        if copy.step is None:
            self._complete(copy)
        else:
            copy.running = self._threads.submit(_perform, copy.source, str(copy.folder), copy.step)
            copy.running.add_done_callback(self._ring)

    def _begin_anew(self, copy: _Copy) -> None:
        del self._copies[copy.owned]
        self._want(copy.owned, copy.target)

    def _ring(self, _done: object) -> None:
        """By the thread: the loop wakes up."""
        os.eventfd_write(self.doorbell, 1)

    def rung(self, _events: int) -> None:
        """Pieces were copied, perhaps for moves that have ended meanwhile."""
        os.eventfd_read(self.doorbell)
        for copy in list(self._copies.values()):
            running = copy.running
            if running is not None and running.done():
                copy.running = None
                self._stepped(copy, running)

    def _stepped(self, copy: _Copy, running: Future[dict[str, int]]) -> None:
        error = running.exception()
        if isinstance(error, FileNotFoundError) and not isinstance(copy.step, FindCopied) and not _is_there(copy):
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
            log.info("%s: %d segments were copied before", copy.owned.name, len(copied))

    def _copied(self, copy: _Copy, step: CopyBytes | CopyFiles) -> None:
        owned, relocation = copy.owned, copy.relocation
        before = relocation.size_bytes
        relocation.done(step)
        self._copy_rate.copied(max(0, relocation.size_bytes - before), self._rate(), monotonic_ms())
        copy.due_ms = 0
        owned.future_end, owned.future_bytes = relocation.end_offset, relocation.size_bytes
        if owned.log is not None:
            self._touched(owned)

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
        self._publish(owned)
        self._touched(owned)
        self._left.add(owned, self._live(source, owned))
        log.info("%s was moved from %s to %s", owned.name, self._log_dirs[source], self._log_dirs[copy.target])

    def _abandon(self, owned: OwnedPartition, error: Exception) -> None:
        target = owned.future_dir
        log.error("%s stays where it is and is not moved to %s: %s", owned.name, self._log_dirs[target], error)
        self._drop(owned, removes=True)
        self._touched(owned)
        self._tell(PartitionMoved(owned.topic_id, owned.name.partition, owned.log_dir, target))

    def _is_left(self, owned: OwnedPartition) -> None:
        """The old directory of a partition that was moved has lost its name."""
        self._files_removed([owned.slot])
        self._tell(PartitionMoved(owned.topic_id, owned.name.partition, owned.log_dir, owned.log_dir))

    def _live(self, log_dir: int, owned: OwnedPartition) -> Path:
        return Path(self._log_dirs[log_dir]) / directory_name(owned.name)

    def close(self) -> None:
        """The next start goes on with what is being copied. No reader is left."""
        self._threads.close(cancel=True)
        self._left.close()
        os.close(self.doorbell)


def _may_be_copied(partition_log: PartitionLog | None) -> bool:
    return partition_log is not None and partition_log.segments.pending_swap is None


def _is_there(copy: _Copy) -> bool:
    """Whether the log still has the segment of the last step."""
    assert isinstance(copy.step, CopyBytes | CopyFiles)
    partition_log = copy.owned.log
    return partition_log is not None and copy.step.base_offset in partition_log.segments.base_offsets


def _perform(source: str, folder: str, step: Step) -> dict[str, int]:
    """By a thread. What `FindCopied` has found, or nothing."""
    if isinstance(step, FindCopied):
        return find_copied(source, folder, step.names, PARTITION_METADATA)
    name = file_name(step.base_offset, LOG)
    if isinstance(step, CopyBytes):
        copy_bytes(f"{source}/{name}", f"{folder}/{name}", step.start, step.end, sync=step.sync)
    else:
        copy_small_files(source, folder, step.names, name)
    return {}
