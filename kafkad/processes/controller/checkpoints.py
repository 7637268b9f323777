"""Checkpoints of recovery points, log start offsets, high watermarks and cleaned offsets: one file of each kind in each
log directory.

They are written from the workers' slots, and only while logs change: a worker reports changes at most every few
seconds, and no timer runs in an idle broker. An offline partition keeps its value on disk. The files name partitions
by topic name, so the entries of a deleted topic must be removed before a new topic of that name has records.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from kafkad.adapters.files.checkpoint_files import read_offsets, write_offsets
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.files.reserved_space import ReservedSpace
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.config import BrokerConfig
from kafkad.core.controller.image import MetadataImage
from kafkad.core.log.recovery.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointCorrupt,
)
from kafkad.core.log.segments.layout import directory_name
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.core.types import TopicPartition
from kafkad.processes.runtime.child import ChildContext

log = logging.getLogger(__name__)

NOTICE_MS = 6_000
"""A worker that has reported changes reports further ones only after 5 s and a loop pass."""

Offsets = dict[TopicPartition, int]
_FIELDS: dict[str, Callable[[PartitionSlot], int]] = {
    HIGH_WATERMARKS: lambda slot: slot.hw_offset,
    RECOVERY_POINTS: lambda slot: slot.recovery_point,
    LOG_START_OFFSETS: lambda slot: slot.log_start,
    CLEANED_OFFSETS: lambda slot: slot.cleaned_offset,
}
"""A negative value stands for none, and is not written."""
_WITHOUT = {
    HIGH_WATERMARKS: "the leaders of replicated logs have to send the high watermarks",
    RECOVERY_POINTS: "after a crash its logs are recovered from their start",
    LOG_START_OFFSETS: "its logs start at their first segments, deleted records may reappear",
    CLEANED_OFFSETS: "its logs are compacted from their start",
}
"""The consequence of an unreadable file."""
_LOWERED = (RECOVERY_POINTS, LOG_START_OFFSETS, CLEANED_OFFSETS)


class Checkpoints:
    """`intervals_ms` by file name: a file without an interval is written only at the stop. No file is written before
    `first_ms`. `failed` is called with a log directory that can no longer be written.
    """

    def __init__(
        self,
        paths: Collection[tuple[int, Path]],
        table: PartitionTable,
        intervals_ms: dict[str, int],
        *,
        first_ms: Mapping[str, int],
        failed: Callable[[int, str], None],
    ) -> None:
        self._paths = dict(paths)
        self._reserved = {log_dir: ReservedSpace(path) for log_dir, path in self._paths.items()}
        for reserved in self._reserved.values():
            reserved.reserve()
        self._table = table
        self._intervals_ms = intervals_ms
        self._first_ms = first_ms
        self._failed = failed
        self._due_ms: dict[str, int] = {}
        self._stable_from_ms = 0
        self._written = {
            (log_dir, name): _on_disk(path, name) for log_dir, path in self._paths.items() for name in _FIELDS
        }

    @property
    def next_deadline_ms(self) -> int | None:
        return min(self._due_ms.values(), default=None)

    def moved(self, now_ms: int, *, lowered: bool = False) -> None:
        """Logs have changed, or partitions were added or removed.

        `lowered`: some offsets are lower than in the files. After a power failure a too high recovery point would hide
        damaged records, so the files are written at once (as in Apache Kafka). The log start offset may be lower, too:
        a log start beyond the log end would empty the log at the next start.
        """
        self._stable_from_ms = now_ms + NOTICE_MS
        if lowered:
            self._due_ms |= dict.fromkeys(_LOWERED, now_ms)
        for name, interval_ms in self._intervals_ms.items():
            first_ms = self._first_ms.get(name, now_ms)
            self._due_ms.setdefault(name, first_ms if now_ms < first_ms else now_ms + interval_ms)

    def forget(self, log_dir: int) -> None:
        """The log directory went offline: stop writing its files."""
        self._paths.pop(log_dir, None)

    def remove_entries(self, partitions: Collection[TopicPartition]) -> None:
        """Remove the entries of earlier partitions with these names. The new ones have no directory yet.

        A log start beyond the log end would empty the new log after a crash.
        """
        for (log_dir, name), offsets in self._written.items():
            if log_dir in self._paths and any(offsets.get(partition) for partition in partitions):
                created = set(partitions)
                self._write_one(log_dir, name, {each: at for each, at in offsets.items() if each not in created})

    def write_due(self, image: MetadataImage, now_ms: int) -> None:
        due = [name for name, due_ms in self._due_ms.items() if due_ms <= now_ms]
        if not due:
            return
        for name in due:
            del self._due_ms[name]
        has_changed = self.write(image, due)
        for name in due:
            # Continue until no change for as long as a worker may delay its report.
            if name in self._intervals_ms and (has_changed or now_ms < self._stable_from_ms):
                self._due_ms[name] = now_ms + self._intervals_ms[name]

    def write(self, image: MetadataImage, names: Collection[str] = tuple(_FIELDS)) -> bool:
        """Write the files whose content has changed; returns whether there were any."""
        return self._write(self._published(image, names))

    def write_last(self, image: MetadataImage) -> None:
        """Write all files at a stop. A partition without a directory gets the high watermark 0, so that the next start
        does not report lost records (`without_records`).
        """
        published = self._published(image, tuple(_FIELDS))
        for topic in image.topics.values():
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.index)
                offsets = published.get((row.log_dir, HIGH_WATERMARKS))
                if offsets is not None and partition not in offsets:
                    if not (self._paths[row.log_dir] / directory_name(partition)).exists():
                        offsets[partition] = 0
        self._write(published)

    def _write(self, published: Mapping[tuple[int, str], Offsets]) -> bool:
        has_changed = False
        for (log_dir, name), offsets in published.items():
            if log_dir in self._paths and offsets != self._written[log_dir, name]:
                has_changed = True
                self._write_one(log_dir, name, offsets)
        return has_changed

    def _write_one(self, log_dir: int, name: str, offsets: Offsets) -> None:
        try:
            self._replace(log_dir, name, offsets)
        except NoSpaceLeft as no_space:
            # The old file is intact; the next attempt may have free space.
            log.error("can't write %s/%s, keeping the old file: %s", self._paths[log_dir], name, no_space)
        except StorageFailed as failure:
            self._failed(log_dir, str(failure))
        else:
            self._written[log_dir, name] = offsets

    def _replace(self, log_dir: int, name: str, offsets: Offsets) -> None:
        try:
            write_offsets(self._paths[log_dir], name, offsets)
        except NoSpaceLeft:
            self._reserved[log_dir].free()
            try:
                write_offsets(self._paths[log_dir], name, offsets)
            finally:
                self._reserved[log_dir].reserve()

    def _published(self, image: MetadataImage, names: Collection[str]) -> dict[tuple[int, str], Offsets]:
        found: dict[tuple[int, str], Offsets] = {(log_dir, name): {} for log_dir in self._paths for name in names}
        fields = [(name, _FIELDS[name]) for name in names]
        read = self._table.read
        for topic in image.topics.values():
            topic_id = topic.id.bytes
            for row in topic.partitions:
                if row.log_dir not in self._paths or row.slot < 0:
                    continue
                slot = read(row.slot)
                is_online = slot.state == STATE_ONLINE and slot.topic_id == topic_id
                partition = TopicPartition(topic.name, row.index)
                for name, field in fields:
                    if is_online:
                        if (offset := field(slot)) >= 0:
                            found[row.log_dir, name][partition] = offset
                    elif partition in (written := self._written[row.log_dir, name]):
                        found[row.log_dir, name][partition] = written[partition]
        return found


def _on_disk(path: Path, name: str) -> Offsets:
    """The entries of the file. Only this process logs a damaged file, although workers read it, too."""
    try:
        return read_offsets(path, name)
    except (CheckpointCorrupt, StorageFailed) as error:
        log.warning("can't read %s/%s, writing a new file; %s: %s", path, name, _WITHOUT[name], error)
        return {}


def without_records(directories: Iterable[LogDirectory], was_clean: Iterable[bool]) -> set[TopicPartition]:
    """The partitions without records at the last stop, by the checkpoints of clean log directories."""
    found: set[TopicPartition] = set()
    for directory, is_known in zip(directories, was_clean, strict=True):
        if directory.is_online and is_known:
            offsets = _on_disk(directory.path, HIGH_WATERMARKS)
            found.update(partition for partition, offset in offsets.items() if offset == 0)
    return found


def checkpoints_of(
    context: ChildContext, offline: Collection[int], now_ms: int, failed: Callable[[int, str], None]
) -> Checkpoints:
    """The checkpoints of the online log directories, as configured."""
    first_ms = now_ms + context.config.log_dirs.log_initial_task_delay_ms
    return Checkpoints(
        [(at, each.path) for at, each in enumerate(context.log_directories) if at not in offline],
        context.table,
        _intervals_ms(context.config),
        first_ms=dict.fromkeys((RECOVERY_POINTS, LOG_START_OFFSETS), first_ms),
        failed=failed,
    )


def _intervals_ms(config: BrokerConfig) -> dict[str, int]:
    """The configured intervals. As in Apache Kafka, 0 means no periodic writes."""
    log_dirs = config.log_dirs
    intervals = {
        HIGH_WATERMARKS: log_dirs.replica_high_watermark_checkpoint_interval_ms,
        RECOVERY_POINTS: log_dirs.log_flush_offset_checkpoint_interval_ms,
        LOG_START_OFFSETS: log_dirs.log_flush_start_offset_checkpoint_interval_ms,
        CLEANED_OFFSETS: log_dirs.replica_high_watermark_checkpoint_interval_ms,
    }
    return {name: interval_ms for name, interval_ms in intervals.items() if interval_ms > 0}
