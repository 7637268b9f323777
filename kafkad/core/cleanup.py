"""The view that a cleanup policy has of a log, and the effects that it may ask for.

A policy only plans. The cleaner calls it with a summary; the owner of the partition carries its effects out, and checks
each again against the log as it then is, so a plan that comes too late does nothing.
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
    """One segment; `largest_timestamp_ms` is -1 when no record in it carries a timestamp.

    `first_timestamp_ms` is that of its first batch, -1 where nobody has asked for it: only compaction does.
    """

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    last_modified_ms: int
    is_active: bool
    first_timestamp_ms: int = -1


def age_from(segment: SegmentSummary) -> int:
    """The file's modification time is wrong after a reassignment, so it is used only for segments without
    timestamps.
    """
    timestamp_ms = segment.largest_timestamp_ms
    return timestamp_ms if timestamp_ms >= 0 else segment.last_modified_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSummary:
    """One partition's log; `segments` in offset order, the active one last.

    `cleanable_end` is the last stable offset, or how far the log and the markers that made it stable are on disk if
    that is less: what lies before it may be compacted. `cleaned_offset` is where the last compaction ended, -1 if there
    was none. `exported_offset` is the smallest that a group `kafkad-export-…` has committed, NO_EXPORT if none has;
    None as long as it is not known, which only the policy `delete-exported` makes the cleaner ask for.
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

    When these are all segments a new active segment is started first. Nothing above the high watermark is deleted.
    """

    up_to_base_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollActive:
    """Close the active segment and start a new one; an empty one stays as it is."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterLimits:
    """How much memory a `RecordFilter` may take, and the largest number of keys that it can meet; `seed` is drawn anew
    for each pass.
    """

    most_bytes: int
    load_factor: float
    most_keys: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSegments:
    """Write the segments below `first_uncleanable_offset` anew, with the records that `record_filter` retains.

    It is shown the records from `first_dirty_offset` on before. Of all logs, the one with the greatest `urgency` is
    rewritten first; the reason is logged.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    urgency: float
    record_filter: Callable[[FilterLimits], "RecordFilter"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSegment:
    """A segment that gets no more records, for who wants to keep them elsewhere: its batches as they are stored.

    `file` is open at its beginning for as long as the receiver runs. `first_offset` and `next_offset` bound its
    offsets; what it contains was and stays the same, so a copy under a name made of them and of `topic_id` may be
    written again.
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
    """Give the sealed segments with base offsets up to and including `up_to_base_offset` to `receiver`, the oldest
    first, and delete each when `receiver` has returned.

    It runs in a thread of a cleaner process. After an exception, or a crash, the same segment comes again.
    """

    up_to_base_offset: int
    receiver: Callable[[SealedSegment], None]
    reason: str


CleanupEffect = DeleteSegments | RollActive | RewriteSegments | TransferSegments


class CleanupPolicy(Protocol):
    """A way to keep logs from growing, chosen per topic: its `name` is a value of `cleanup.policy`."""

    @property
    def name(self) -> str: ...

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        """The effects for `log` now (`now_ms` is the wall clock); an empty sequence for none."""
