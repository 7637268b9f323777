"""Opens the logs of a worker's partitions: creates new ones, loads or recovers existing ones.

Logs are loaded between loop passes, one step of one log at a time, so that loaded partitions serve requests already. A
worker that replaces a dead one in a running broker trusts the published slot, because the page cache is intact. If the
loaded log ends below the published high watermark, the partition goes offline with an error; the high watermark is
never lowered silently. A partition without disk space is offline, and its load is retried every few seconds.
"""

import logging
import random
import time
from collections import OrderedDict
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from kafkad.adapters.files.checkpoint_files import read_offsets
from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.log_directory import LogDirectory, write_partition_metadata
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.records.old_formats import OldMessageFormat
from kafkad.core.log.recovery.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointCorrupt,
    parse_partition_metadata,
)
from kafkad.core.log.recovery.crash_recovery import Progress
from kafkad.core.log.recovery.loading import LoadRequest, load_steps
from kafkad.core.log.segments.layout import PARTITION_METADATA
from kafkad.core.log.settings import LogConfig
from kafkad.core.metrics.catalogue import REMAINING_LOGS, REMAINING_SEGMENTS, of_log_dir
from kafkad.core.metrics.counting import Block
from kafkad.core.partition_slot import STATE_OFFLINE, STATE_ONLINE, PartitionSlot
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.core.types import NOT_CLEANED, TopicPartition
from kafkad.processes.worker.disks.recovery_read_ahead import RecoveryReadAhead
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.owned import OwnedPartition

log = logging.getLogger(__name__)

RETRY_MS = 5_000
READ_AHEAD_FROM_BYTES = 4 << 20
"""Other logs are read ahead while a log of at least this size is recovered; for small logs it costs more than it saves.
"""


class _Task(NamedTuple):
    """A partition to load; `before` is the slot that the previous worker published."""

    owned: OwnedPartition
    config: LogConfig
    before: PartitionSlot


class DirectoryState:
    """The state of a log directory at the start: its checkpoints, and whether it was closed cleanly."""

    def __init__(self, directory: LogDirectory, *, was_clean: bool) -> None:
        self.path = directory.path
        self.was_clean = was_clean
        self.recovery_points = _offsets(directory, RECOVERY_POINTS)
        self.log_starts = _offsets(directory, LOG_START_OFFSETS)
        self.cleaned = _offsets(directory, CLEANED_OFFSETS)
        self.high_watermarks = _offsets(directory, HIGH_WATERMARKS)

    def forget_partition(self, partition: TopicPartition) -> None:
        """The partition is new: the checkpoints are of a deleted topic of this name."""
        self.recovery_points.pop(partition, None)
        self.log_starts.pop(partition, None)
        self.cleaned.pop(partition, None)
        self.high_watermarks.pop(partition, None)


def _offsets(directory: LogDirectory, name: str) -> dict[TopicPartition, int]:
    if not directory.is_online:
        return {}
    try:
        return read_offsets(directory.path, name)
    except (CheckpointCorrupt, StorageFailed):
        # The controller reads it as well and logs errors, once and not once per worker.
        return {}


class Loader:
    """The partitions that are not online yet, in order."""

    def __init__(
        self,
        directories: list[DirectoryState],
        files: FileCache,
        *,
        producer_expiration_ms: int,
        outbox: Outbox,
        block: Block,
        read_ahead: RecoveryReadAhead,
    ) -> None:
        self._block = block
        self.read_ahead = read_ahead
        self._directories = directories
        self._files = files
        self.producer_expiration_ms = producer_expiration_ms
        self.verifies_transactions = True
        self._outbox = outbox
        self._waiting: OrderedDict[OwnedPartition, _Task] = OrderedDict()
        """In order; each may be removed at any time, perhaps with ten thousand others of a deleted topic."""
        self._current: tuple[_Task, Generator[Progress, None, PartitionLog]] | None = None
        self._without_space: dict[int, _Task] = {}
        """The partitions that wait for disk space, by slot, until they are loaded."""
        self._now_ms = 0
        self.retry_due_ms: int | None = None
        self._loaded: list[OwnedPartition] = []
        """The partitions that the present call of `load` has loaded."""
        self._begun = 0
        self._permille = 0

    @property
    def is_idle(self) -> bool:
        return self._current is None and not self._waiting

    @property
    def waiting(self) -> int:
        return len(self._waiting) + (self._current is not None)

    @property
    def progress(self) -> tuple[int, int]:
        """(done, total) in thousandths of a partition, because one partition may take minutes."""
        if self._current is None:
            return 1000 * self._begun, 1000 * (self._begun + len(self._waiting))
        return 1000 * (self._begun - 1) + self._permille, 1000 * (self._begun + len(self._waiting))

    def add(self, owned: OwnedPartition, config: LogConfig, before: PartitionSlot) -> None:
        """`before` is the slot that the previous worker published."""
        self._wait(_Task(owned, config, before))
        state = self._directories[owned.log_dir]
        if not state.was_clean:
            recovery_point = state.recovery_points.get(owned.name, 0)
            self.read_ahead.add(owned, owned.log_dir, state.path / str(owned.name), recovery_point)

    def discard(self, owned: OwnedPartition) -> None:
        """The topic was deleted before its partition was loaded."""
        self._without_space.pop(owned.slot, None)
        if self._waiting.pop(owned, None) is not None:
            self._task_ended(owned)
            self.read_ahead.skip(owned)
        elif self._current is not None and self._current[0].owned is owned:
            self._current = None
            self._task_ended(owned)

    def _wait(self, task: _Task) -> None:
        if task.owned not in self._waiting:
            self._block[of_log_dir(REMAINING_LOGS, task.owned.log_dir)] += 1
        self._waiting[task.owned] = task

    def _task_ended(self, owned: OwnedPartition) -> None:
        """The log is loaded, failed or deleted."""
        self._block[of_log_dir(REMAINING_LOGS, owned.log_dir)] -= 1
        self._block[of_log_dir(REMAINING_SEGMENTS, owned.log_dir)] = 0

    def retry(self, now_ms: int) -> None:
        """Load the partitions that wait for disk space, if a retry is due."""
        self._now_ms = now_ms
        if self.retry_due_ms is not None and now_ms >= self.retry_due_ms:
            self.retry_due_ms = None
            for task in self._without_space.values():
                self._wait(task)

    def load(self, budget_s: float) -> list[OwnedPartition]:
        """Load for about `budget_s` seconds. Returns the partitions that are online now, or have failed."""
        until = time.monotonic() + budget_s
        while not self.is_idle and time.monotonic() < until:
            if self._current is None:
                _, task = self._waiting.popitem(last=False)
                self._begun += 1
                self._permille = 0
                self.read_ahead.skip(task.owned)
                try:
                    self._current = (task, self._begin(*task))
                except (StorageFailed, FileNotFoundError) as error:
                    self._abandon(task, error)
                    continue
            self._step()
        if self.is_idle:
            self.read_ahead.close()
        loaded, self._loaded = self._loaded, []
        return loaded

    def _begin(
        self, owned: OwnedPartition, config: LogConfig, before: PartitionSlot
    ) -> Generator[Progress, None, PartitionLog]:
        state = self._directories[owned.log_dir]
        directory = state.path / str(owned.name)
        is_new = _create(directory, owned.topic_id)
        if is_new:
            state.forget_partition(owned.name)
        replaces_dead_worker = before.topic_id == owned.topic_id
        recovery_point = state.recovery_points.get(owned.name, 0)
        cleaned_offset = state.cleaned.get(owned.name, NOT_CLEANED)
        was_clean = is_new or (state.was_clean and not replaces_dead_worker)
        owned.needs_recovery = not was_clean
        request = LoadRequest(
            partition=owned.name,
            config=config,
            was_clean=was_clean,
            now_ms=wall_clock_ms(),
            recovery_point=max(recovery_point, before.leo_offset) if replaces_dead_worker else recovery_point,
            log_start_offset=max(state.log_starts.get(owned.name, 0), before.log_start if replaces_dead_worker else 0),
            cleaned_offset=max(before.cleaned_offset if replaces_dead_worker else NOT_CLEANED, cleaned_offset),
            roll_jitter=random.random(),
            producer_expiration_ms=self.producer_expiration_ms,
            verifies_transactions=self.verifies_transactions,
        )
        steps = load_steps(SegmentFiles(directory, self._files), request)
        return _load(steps, before.recovery_point if replaces_dead_worker else None)

    def _step(self) -> None:
        assert self._current is not None
        task, steps = self._current
        owned = task.owned
        try:
            try:
                progress = next(steps)
            except StopIteration as finished:
                self._finish(owned, finished.value, task.before)
            else:
                self._report(owned, progress)
                return
        except (StorageFailed, CorruptBatch, OldMessageFormat, FileNotFoundError) as error:
            self._abandon(task, error)
            return
        self._current = None
        self._task_ended(owned)
        if self._without_space.pop(owned.slot, None):
            log.info("%s is loaded: its log directory has free space again", owned.name)
        self._loaded.append(owned)

    def _report(self, owned: OwnedPartition, progress: Progress) -> None:
        self._permille = 1000 * progress.bytes_done // max(1, progress.bytes_total)
        self._block[of_log_dir(REMAINING_SEGMENTS, owned.log_dir)] = progress.remaining_segments
        if progress.bytes_total >= READ_AHEAD_FROM_BYTES:
            self.read_ahead.tick()
        if progress.message:
            log.warning("%s: %s", owned.name, progress.message)

    def _finish(self, owned: OwnedPartition, partition_log: PartitionLog, before: PartitionSlot) -> None:
        if before.topic_id == owned.topic_id and partition_log.log_end_offset < before.hw_offset:
            log.error(
                "%s stays offline: its log ends at offset %d, below its published high watermark %d",
                owned.name,
                partition_log.log_end_offset,
                before.hw_offset,
            )
            owned.state = STATE_OFFLINE
            return
        # This may read files, and raise.
        self._begin_high_watermark(owned, partition_log, before)
        owned.log = partition_log
        owned.needs_recovery = False
        owned.generation_base = before.generation
        owned.state = STATE_ONLINE

    def _begin_high_watermark(self, owned: OwnedPartition, partition_log: PartitionLog, before: PartitionSlot) -> None:
        """Without other replicas the whole log is committed, otherwise up to the last known high watermark."""
        end = partition_log.log_end_offset
        if owned.replicas > 1:
            checkpointed = self._directories[owned.log_dir].high_watermarks.get(owned.name, 0)
            end = min(end, max(checkpointed, before.hw_offset if before.topic_id == owned.topic_id else 0))
        partition_log.advance_high_watermark(max(end, partition_log.log_start_offset))

    def _abandon(self, task: _Task, error: Exception) -> None:
        owned = task.owned
        self._current = None
        self._task_ended(owned)
        owned.state = STATE_OFFLINE
        if isinstance(error, NoSpaceLeft):
            # A full disk fails only new files, as with an append; existing logs are served.
            self._wait_for_space(task, error)
        else:
            log.error("%s stays offline, cannot load its log: %s", owned.name, error)
            self._without_space.pop(owned.slot, None)
        if isinstance(error, StorageFailed) and not isinstance(error, NoSpaceLeft):
            # A failed directory is never marked clean, whatever its partitions need.
            owned.needs_recovery = False
            self._outbox.log_dir_failed(owned.log_dir, str(error))
        self._loaded.append(owned)

    def _wait_for_space(self, task: _Task, error: NoSpaceLeft) -> None:
        owned = task.owned
        if owned.slot not in self._without_space:
            log.error("%s is offline, cannot load its log, retrying: %s", owned.name, error)
            self._without_space[owned.slot] = task
        if self.retry_due_ms is None:
            self.retry_due_ms = self._now_ms + RETRY_MS


def _load(
    steps: Generator[Progress, None, PartitionLog], synced_up_to: int | None
) -> Generator[Progress, None, PartitionLog]:
    """`synced_up_to`: the recovery point in the slot of a dead worker.

    With `flush.messages`, records beyond the recovery point must be on disk before readers may see them.
    """
    partition_log = yield from steps
    if synced_up_to is not None:
        partition_log.recovery_point = min(partition_log.recovery_point, synced_up_to)
    if partition_log.log_end_offset - partition_log.recovery_point >= partition_log.config.flush_messages:
        partition_log.flush()
    return partition_log


def _create(directory: Path, topic_id: bytes) -> bool:
    """Create the partition's directory if it does not exist. Returns whether it is new."""
    with storage_errors(str(directory)):
        try:
            directory.mkdir()
        except FileExistsError:
            is_new = False
        else:
            is_new = True
        if is_new or not _has_metadata(directory):
            write_partition_metadata(directory, UUID(bytes=topic_id))
    return is_new


def _has_metadata(directory: Path) -> bool:
    """False also for an empty file (after a power failure) or a corrupt one."""
    try:
        parse_partition_metadata((directory / PARTITION_METADATA).read_text(errors="replace"))
    except (FileNotFoundError, CheckpointCorrupt):
        return False
    return True
