"""How does a log move to another directory while it is written?

Sealed segments are copied first, then the active one, while appends continue. The owner copies the short remainder in
one step, and the log continues in the other directory (`complete_copy`, `PartitionLog.relocate_to`). Files are copied
byte for byte, so every position stays valid. Segments may be removed or added meanwhile; compaction waits. A resumed
move does not copy complete sealed segments again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.recovery.state_files import write_epochs
from kafkad.core.log.segments.layout import (
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    parse_file_name,
)
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import LogFile, SegmentStore

MAX_REMAINDER_BYTES = 1 << 20
"""The owner copies at most this much in one step: a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBytes:
    """Copy these bytes of a segment's `.log`. With `sync`, wait until the whole file is on disk."""

    base_offset: int
    start: int
    end: int
    end_offset: int
    """The log end offset after these bytes; without `sync` approximate."""
    sync: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFiles:
    """Copy the other existing files of a segment, whose `.log` is copied, and sync all of them."""

    base_offset: int
    names: tuple[str, ...]
    end_offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCopied:
    """Find the `.log` files that an interrupted move has copied completely, and remove all others."""

    names: tuple[str, ...]


Step = FindCopied | CopyBytes | CopyFiles


class Relocation:
    """The progress of the copy of one log. Invalid once the log was truncated.

    With `is_resumed` it continues the copy of an earlier process.
    """

    def __init__(self, log: PartitionLog, *, is_resumed: bool = False) -> None:
        self._log = log
        self._store = log.store
        self._truncations = log.truncations
        self._next = log.segments[0].base_offset
        """The base offset of the first segment that is not copied completely."""
        self._copied_sizes: dict[int, int] = {}
        """Sizes of the completely copied segments, by base offset."""
        self._existing: Mapping[str, int] | None = None if is_resumed else {}
        """Sizes of the `.log` files of an earlier copy, by name; None until `FindCopied` is done."""
        self._copied_bytes = 0
        self._synced_base = -1
        self.synced_up_to = -1
        """Everything below this offset is on disk in the other directory."""
        self.end_offset = log.log_start_offset
        """The approximate end offset of the copy."""

    @property
    def is_valid(self) -> bool:
        return self._log.truncations == self._truncations and self._log.store is self._store

    @property
    def size_bytes(self) -> int:
        return sum(self._copied_sizes.values()) + self._copied_bytes

    @property
    def copied_active_bytes(self) -> int:
        return self._copied_bytes

    def next_step(self, max_bytes: int) -> Step | None:
        """The next copy step; None when the remainder is short enough for `complete_copy`."""
        if self._existing is None:
            return FindCopied(names=tuple(file_name(base, LOG) for base in self._log.segments.base_offsets[:-1]))
        segment = self._segment()
        existing = self._existing.get(file_name(segment.base_offset, LOG))
        if existing == segment.size and segment is not self._log.segments.active:
            # Its other files are derived: a recovery may have rebuilt them.
            self._copied_bytes = segment.size
        remaining = segment.size - self._copied_bytes
        if segment is not self._log.segments.active:
            next_segment = self._next_segment(segment)
            if remaining:
                return self._copy(segment, min(remaining, max_bytes), next_segment.base_offset, sync=False)
            names = tuple(name for name in segment.file_names() if not name.endswith(LOG))
            segment.flush_indexes()
            return CopyFiles(
                base_offset=segment.base_offset, names=names, end_offset=next_segment.base_offset, size=segment.size
            )
        end_offset = self._log.log_end_offset
        if remaining > MAX_REMAINDER_BYTES:
            return self._copy(segment, min(remaining, max_bytes), end_offset, sync=False)
        if self._synced_base != segment.base_offset:
            # Only once: while clients produce, there are always unsynced records.
            return self._copy(segment, remaining, end_offset, sync=True)
        return None

    def _segment(self) -> Segment:
        """The first incomplete segment; earlier ones may have been removed meanwhile."""
        segments = self._log.segments
        segment = segments.floor(self._next) or segments[0]
        if segment.base_offset != self._next:
            self._next = segment.base_offset
            self._copied_bytes = 0
        return segment

    def _next_segment(self, segment: Segment) -> Segment:
        return self._log.segments.from_offset(segment.base_offset)[1]

    def _copy(self, segment: Segment, size: int, end_offset: int, *, sync: bool) -> CopyBytes:
        return CopyBytes(
            base_offset=segment.base_offset,
            start=self._copied_bytes,
            end=self._copied_bytes + size,
            end_offset=end_offset,
            sync=sync,
        )

    def found(self, copied: Mapping[str, int]) -> None:
        """`FindCopied` is done."""
        self._existing = copied

    @property
    def missing_bytes(self) -> int:
        """The space that the copy still needs in the other directory."""
        return self._log.size_bytes - sum(self._existing.values() if self._existing else ())

    def done(self, step: CopyBytes | CopyFiles) -> None:
        """The step is done."""
        if step.base_offset != self._next:
            return
        if isinstance(step, CopyFiles):
            self._copied_sizes[step.base_offset] = step.size
            self._next, self._copied_bytes = step.end_offset, 0
            self.synced_up_to = self.end_offset = step.end_offset
            return
        self._copied_bytes = step.end
        if step.sync:
            self._synced_base = step.base_offset
            self.synced_up_to = self.end_offset = step.end_offset


def complete_copy(log: PartitionLog, copy: Relocation, target: SegmentStore) -> None:
    """Copy the remainder and all derived files. Nothing may be appended until the log continues in `target`.

    Records that are synced in the old directory are synced in `target` afterwards. Raises `NoSpaceLeft` and
    `StorageFailed`; the log is unchanged then.
    """
    active = log.segments.active
    active.flush_indexes()
    files = [_copy_remainder(active, copy.copied_active_bytes, target)]
    files += [
        _write_file(target, file_name(active.base_offset, OFFSET_INDEX), active.offset_index.read_all()),
        _write_file(target, file_name(active.base_offset, TIME_INDEX), active.time_index.read_all()),
    ]
    if active.aborted.size:
        name = file_name(active.base_offset, TXN_INDEX)
        files.append(_write_file(target, name, log.store.read(name)[: active.aborted.size]))
    if log.epochs.latest_epoch is not None:
        write_epochs(target, log.epochs, is_first=False)
    _remove_deleted(log, target)
    if log.recovery_point > copy.synced_up_to:
        for file in files:
            file.sync()
    for file in files:
        file.close()
    target.sync_directory()


def _copy_remainder(active: Segment, copied: int, target: SegmentStore) -> LogFile:
    file = target.open(file_name(active.base_offset, LOG), create=True)
    remainder = active.log.read_at(active.size - copied, copied)
    file.truncate(copied)
    if remainder:
        file.write_at((remainder,), copied)
    return file


def _write_file(target: SegmentStore, name: str, content: bytes) -> LogFile:
    file = target.open(name, create=True)
    file.truncate(0)
    if content:
        file.write_at((content,), 0)
    return file


def _remove_deleted(log: PartitionLog, target: SegmentStore) -> None:
    """Remove copies of segments that the log has deleted since."""
    bases = set(log.segments.base_offsets)
    first = log.segments[0].base_offset
    for name in target.sizes():
        file = parse_file_name(name)
        if file is not None and file.base_offset not in bases and file.base_offset < first:
            target.unlink(name)
