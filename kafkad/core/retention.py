"""The segments to delete by retention, and those below the log start offset.

Segments are checked from the oldest on, up to the first that is kept, so the others stay contiguous. Nothing above the
high watermark is deleted, whatever its age.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from kafkad.core.cleanup import NO_EXPORT, DeleteSegments, LogSummary, SegmentSummary, age_from
from kafkad.core.log.settings import LogConfig


def old_segments(log: LogSummary, config: LogConfig, now_ms: int) -> DeleteSegments | None:
    """By `retention.ms`, `retention.bytes` and the log start offset."""
    deletable = list(_deletable(log))
    by_start = _count(segment_end <= log.log_start_offset for _, segment_end in deletable)
    by_time = _expired(deletable, config.retention_ms, now_ms)
    kept_bytes = sum(segment.size_bytes for segment in log.segments[by_time:])
    by_size = by_time + _oversized(deletable[by_time:], kept_bytes - config.retention_bytes, config)
    count = max(by_start, by_time, by_size)
    if count == 0:
        return None
    if by_size == count and by_size > by_time:
        reason = f"retention.bytes={config.retention_bytes}"
    elif by_time == count:
        reason = f"retention.ms={config.retention_ms}"
    else:
        reason = f"log start offset {log.log_start_offset}"
    return DeleteSegments(up_to_base_offset=deletable[count - 1][0].base_offset, reason=reason)


def exported_segments(log: LogSummary, config: LogConfig, now_ms: int) -> DeleteSegments | None:
    """The segments of `old_segments` that end below the exported offset or below the log start offset."""
    exported = NO_EXPORT if log.exported_offset is None else log.exported_offset
    bound = min(log.high_watermark, max(exported, log.log_start_offset))
    return old_segments(replace(log, high_watermark=bound), config, now_ms)


def bytes_to_export(log: LogSummary, config: LogConfig, now_ms: int) -> int:
    """The number of bytes that are kept only because they are not exported yet."""
    old, exported = old_segments(log, config, now_ms), exported_segments(log, config, now_ms)
    if old is None:
        return 0
    after = -1 if exported is None else exported.up_to_base_offset
    return sum(each.size_bytes for each in log.segments if after < each.base_offset <= old.up_to_base_offset)


def first_kept_by_time(log: LogSummary, config: LogConfig, now_ms: int) -> SegmentSummary | None:
    """The oldest segment that `retention.ms` keeps, with all after it; None if it keeps none."""
    if config.retention_ms < 0:
        return None
    deletable = list(_deletable(log))
    kept = deletable[_expired(deletable, config.retention_ms, now_ms) :]
    return kept[0][0] if kept else None


def _deletable(log: LogSummary) -> Iterator[tuple[SegmentSummary, int]]:
    """The segments that may be deleted, each with the base offset of the next one."""
    ends = [following.base_offset for _, following in pairwise(log.segments)]
    for segment, end in zip(log.segments, [*ends, log.log_end_offset], strict=True):
        if end > log.high_watermark or (segment.is_active and segment.size_bytes == 0):
            return
        yield segment, end


def _expired(deletable: Sequence[tuple[SegmentSummary, int]], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    return _count(now_ms - age_from(segment) > retention_ms for segment, _ in deletable)


def _oversized(deletable: Sequence[tuple[SegmentSummary, int]], excess: int, config: LogConfig) -> int:
    if config.retention_bytes < 0:
        return 0
    count = 0
    for segment, _ in deletable:
        excess -= segment.size_bytes
        if excess < 0:
            break
        count += 1
    return count


def _count(verdicts: Iterator[bool]) -> int:
    """The number of items before the first False."""
    count = 0
    for verdict in verdicts:
        if not verdict:
            break
        count += 1
    return count
