"""A cleanup policy's view of a log, and the effects that it may return.

A policy only plans. The cleaner calls it with a summary; the owner of the partition carries the effects out, and checks
each against the present log, so an outdated plan does nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol
from uuid import UUID

from kafkad.core.log.settings import LogConfig

if TYPE_CHECKING:
    from kafkad.core.cleaning.record_filter import RecordFilter

NO_EXPORT = -1
"""No group of an export has committed an offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary:
    """One segment; `largest_timestamp_ms` is -1 when no record in it has a timestamp.

    `first_timestamp_ms` is the timestamp of its first batch, read for compaction only; otherwise -1.
    """

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    last_modified_ms: int
    is_active: bool
    first_timestamp_ms: int = -1


def age_from(segment: SegmentSummary) -> int:
    """The time from which the segment's age counts: its largest timestamp, or the file's modification time, which a
    reassignment changes.
    """
    timestamp_ms = segment.largest_timestamp_ms
    return timestamp_ms if timestamp_ms >= 0 else segment.last_modified_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSummary:
    """One partition's log; `segments` in offset order, the active one last.

    `cleanable_end` is the end of what may be compacted: the last stable offset, or less while the log or the markers
    below it are not flushed. `cleaned_offset` is the end of the last compaction, -1 if there was none.
    `exported_offset` is the smallest offset that a group `kafkad-export-…` has committed, NO_EXPORT if there is none;
    None while it is unknown, or the policy is not `delete-exported`.
    """

    topic: str
    partition: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    segments: tuple[SegmentSummary, ...]
    cleanable_end: int = 0
    cleaned_offset: int = -1
    exported_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSegments:
    """Delete the segments with base offsets up to and including `up_to_base_offset`.

    If these are all segments, a new active segment is started first. Nothing above the high watermark is deleted.
    """

    up_to_base_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollActive:
    """Close the active segment and start a new one; an empty one stays as it is."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterLimits:
    """The memory of a `RecordFilter`, and the largest number of keys of a pass; each pass has a new random `seed`."""

    most_bytes: int
    load_factor: float
    most_keys: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSegments:
    """Rewrite the segments below `first_uncleanable_offset` with the records that `record_filter` retains.

    Before, the filter gets the records from `first_dirty_offset` on. The log with the greatest `urgency` is rewritten
    first; the reason is logged.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    urgency: float
    record_filter: Callable[[FilterLimits], "RecordFilter"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSegment:
    """A segment that gets no more records, with its batches as they are stored, for a receiver that keeps a copy.

    `file` is open at its beginning until the receiver returns. The offsets are from `first_offset` to before
    `next_offset`. The content of a segment with the same offsets and `topic_id` never changes, so a copy under a name
    made of them may be overwritten.
    """

    topic: str
    topic_id: UUID
    partition: int
    first_offset: int
    next_offset: int
    size_bytes: int
    file: BinaryIO


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSegments:
    """Pass the sealed segments with base offsets up to and including `up_to_base_offset` to `receiver`, oldest first,
    and delete each after `receiver` has returned.

    `receiver` runs in a thread of a cleaner process. After an exception or a crash it gets the same segment again.
    """

    up_to_base_offset: int
    receiver: Callable[[SealedSegment], None]
    reason: str


CleanupEffect = DeleteSegments | RollActive | RewriteSegments | TransferSegments


class CleanupPolicy(Protocol):
    """A way to limit the size of logs, selected per topic: its `name` is a value of `cleanup.policy`."""

    @property
    def name(self) -> str: ...

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        """The effects for `log` now; `now_ms` is the wall clock. Empty for none."""
