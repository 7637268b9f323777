"""How does a log get into another directory while it is written?

Sealed segments are copied first, then the active one, while appends continue. The short rest is copied by the owner in
one step, and the log continues in the other directory (`complete_copy`, `PartitionLog.relocate_to`). Files are copied
byte for byte, so every position stays valid. Segments may be removed or added meanwhile; compaction waits. Sealed
segments that an interrupted move has copied are not copied again.
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

LARGEST_REST_BYTES = 1 << 20
"""The owner copies so much in one go: a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBytes:
    """Copy these bytes of a segment's `.log`. With `sync`, wait until the whole file is on disk."""

    base_offset: int
    start: int
    end: int
    end_offset: int
    """The log's end after them; without `sync` only roughly."""
    sync: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFiles:
    """A segment's `.log` is there: copy its other files, as far as there are any, and sync all of them."""

    base_offset: int
    names: tuple[str, ...]
    end_offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCopied:
    """Find those of these `.log` files that an interrupted move has copied as a whole, and remove the rest."""

    names: tuple[str, ...]


Step = FindCopied | CopyBytes | CopyFiles


class Relocation:
    """How far the copy of one log has come. It is of no use any more when the log was truncated.

    With `is_resumed` it begins with what an earlier process has left.
    """

    def __init__(self, log: PartitionLog, *, is_resumed: bool = False) -> None:
        self._log = log
        self._store = log.store
        self._truncations = log.truncations
        self._next = log.segments[0].base_offset
        """The first segment that is not copied as a whole."""
        self._whole: dict[int, int] = {}
        """The sizes of those that are."""
        self._found: Mapping[str, int] | None = None if is_resumed else {}
        """The sizes of the `.log` files that are there from before, by name."""
        self._copied_bytes = 0
        self._synced_base = -1
        self.synced_up_to = -1
        """Everything below this offset is on disk in the other directory."""
        self.end_offset = log.log_start_offset
        """About how far the copy goes."""

    @property
    def is_valid(self) -> bool:
        return self._log.truncations == self._truncations and self._log.store is self._store

    @property
    def size_bytes(self) -> int:
        return sum(self._whole.values()) + self._copied_bytes

    @property
    def copied_of_active(self) -> int:
        return self._copied_bytes

    def next_step(self, most_bytes: int) -> Step | None:
        """What to copy next; None when the rest is so short that `complete_copy` can copy it."""
        if self._found is None:
            return FindCopied(names=tuple(file_name(base, LOG) for base in self._log.segments.base_offsets[:-1]))
        segment = self._segment()
        found = self._found.get(file_name(segment.base_offset, LOG))
        if found == segment.size and segment is not self._log.segments.active:
            # Its other files are derived, and a recovery may have made them anew.
            self._copied_bytes = segment.size
        rest = segment.size - self._copied_bytes
        if segment is not self._log.segments.active:
            following = self._following(segment)
            if rest:
                return self._copy(segment, min(rest, most_bytes), following.base_offset, sync=False)
            names = tuple(name for name in segment.file_names() if not name.endswith(LOG))
            segment.flush_indexes()
            return CopyFiles(
                base_offset=segment.base_offset, names=names, end_offset=following.base_offset, size=segment.size
            )
        end_offset = self._log.log_end_offset
        if rest > LARGEST_REST_BYTES:
            return self._copy(segment, min(rest, most_bytes), end_offset, sync=False)
        if self._synced_base != segment.base_offset:
            # Only once: while clients produce, there would be something to sync for ever.
            return self._copy(segment, rest, end_offset, sync=True)
        return None

    def _segment(self) -> Segment:
        """The first that is not whole; those before it may have been removed meanwhile."""
        segments = self._log.segments
        segment = segments.holding(self._next) or segments[0]
        if segment.base_offset != self._next:
            self._next = segment.base_offset
            self._copied_bytes = 0
        return segment

    def _following(self, segment: Segment) -> Segment:
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
        """`FindCopied` was made."""
        self._found = copied

    @property
    def missing_bytes(self) -> int:
        """What the other directory has to have room for."""
        return self._log.size_bytes - sum(self._found.values() if self._found else ())

    def done(self, step: CopyBytes | CopyFiles) -> None:
        """The step was made."""
        if step.base_offset != self._next:
            return
        if isinstance(step, CopyFiles):
            self._whole[step.base_offset] = step.size
            self._next, self._copied_bytes = step.end_offset, 0
            self.synced_up_to = self.end_offset = step.end_offset
            return
        self._copied_bytes = step.end
        if step.sync:
            self._synced_base = step.base_offset
            self.synced_up_to = self.end_offset = step.end_offset


def complete_copy(log: PartitionLog, copy: Relocation, target: SegmentStore) -> None:
    """Copy what is left, and all that is derived from the log. Nothing may be appended from here on until the log goes
    on there.

    What the log has on disk here is on disk there afterwards. Raises `NoSpaceLeft` and `StorageFailed`; the log is as
    it was then.
    """
    active = log.segments.active
    active.flush_indexes()
    files = [_copy_rest(active, copy.copied_of_active, target)]
    files += [
        _put(target, file_name(active.base_offset, OFFSET_INDEX), active.offset_index.read_all()),
        _put(target, file_name(active.base_offset, TIME_INDEX), active.time_index.read_all()),
    ]
    if active.aborted.size:
        name = file_name(active.base_offset, TXN_INDEX)
        files.append(_put(target, name, log.store.read(name)[: active.aborted.size]))
    if log.epochs.latest_epoch is not None:
        write_epochs(target, log.epochs, is_first=False)
    _remove_others(log, target)
    if log.recovery_point > copy.synced_up_to:
        for file in files:
            file.sync()
    for file in files:
        file.close()
    target.sync_directory()


def _copy_rest(active: Segment, copied: int, target: SegmentStore) -> LogFile:
    file = target.open(file_name(active.base_offset, LOG), create=True)
    rest = active.log.read_at(active.size - copied, copied)
    file.truncate(copied)
    if rest:
        file.write_at((rest,), copied)
    return file


def _put(target: SegmentStore, name: str, content: bytes) -> LogFile:
    file = target.open(name, create=True)
    file.truncate(0)
    if content:
        file.write_at((content,), 0)
    return file


def _remove_others(log: PartitionLog, target: SegmentStore) -> None:
    """Segments that were removed here since they were copied."""
    bases = set(log.segments.base_offsets)
    first = log.segments[0].base_offset
    for name in target.sizes():
        file = parse_file_name(name)
        if file is not None and file.base_offset not in bases and file.base_offset < first:
            target.unlink(name)
