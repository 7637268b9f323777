"""cleanup.policy=delete: old segments go, by time and by size.

Segments are checked from the oldest on, up to the first that stays, so the rest is always contiguous. Nothing above
the high watermark is removed, whatever its age. A record from the future keeps its segment, and all after it, until
its time has come: this is told once, as retention.ms seems to have no effect.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from kafkad.api import CleanupEffect, CleanupPolicy, DeleteSegments, LogConfig, LogSummary, SegmentSummary, hookimpl

log = logging.getLogger(__name__)

_CLOCKS_DIFFER_MS = 3_600_000
"""No broker refuses so much, unless it is told to (message.timestamp.after.max.ms)."""
_REMEMBERED = 10_000


class Retention:
    """retention.ms, retention.bytes and the log start offset."""

    name = "delete"

    def __init__(self) -> None:
        self._told: dict[tuple[str, int], int] = {}
        """By partition, the segment from the future that the log names already."""

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        deletable = list(_deletable(log))
        by_start = _count(segment_end <= log.log_start_offset for _, segment_end in deletable)
        by_time = _expired(deletable, config.retention_ms, now_ms)
        if config.retention_ms >= 0:
            self._tell_of_future(log, deletable[by_time:], now_ms)
        kept_bytes = sum(segment.size_bytes for segment in log.segments[by_time:])
        by_size = by_time + _oversized(deletable[by_time:], kept_bytes - config.retention_bytes, config)
        count = max(by_start, by_time, by_size)
        if count == 0:
            return []
        if by_size == count and by_size > by_time:
            reason = f"retention.bytes={config.retention_bytes}"
        elif by_time == count:
            reason = f"retention.ms={config.retention_ms}"
        else:
            reason = f"log start offset {log.log_start_offset}"
        return [DeleteSegments(up_to_base_offset=deletable[count - 1][0].base_offset, reason=reason)]

    def _tell_of_future(self, of: LogSummary, kept: Sequence[tuple[SegmentSummary, int]], now_ms: int) -> None:
        """`kept` stay by their age, because of the first of them."""
        partition = (of.topic, of.partition)
        if not kept or _age_from(kept[0][0]) <= now_ms + _CLOCKS_DIFFER_MS:
            self._told.pop(partition, None)
            return
        segment = kept[0][0]
        if self._told.get(partition) == segment.base_offset:
            return
        if len(self._told) >= _REMEMBERED:
            self._told.clear()
        self._told[partition] = segment.base_offset
        log.warning(
            "%s-%d: the segment at offset %d has a record of %s, which is in the future: "
            "retention.ms keeps this segment and those after it until then",
            *partition,
            segment.base_offset,
            _in_words(_age_from(segment)),
        )


def _deletable(log: LogSummary) -> Iterator[tuple[SegmentSummary, int]]:
    """The segments that may be removed, each with the offset at which the next one starts."""
    ends = [following.base_offset for _, following in pairwise(log.segments)]
    for segment, end in zip(log.segments, [*ends, log.log_end_offset], strict=True):
        if end > log.high_watermark or (segment.is_active and segment.size_bytes == 0):
            return
        yield segment, end


def _expired(deletable: Sequence[tuple[SegmentSummary, int]], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    return _count(now_ms - _age_from(segment) > retention_ms for segment, _ in deletable)


def _age_from(segment: SegmentSummary) -> int:
    """The file's modification time is wrong after a reassignment, so it is used only for segments without
    timestamps.
    """
    timestamp_ms = segment.largest_timestamp_ms
    return timestamp_ms if timestamp_ms >= 0 else segment.last_modified_ms


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


def _in_words(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"timestamp {timestamp_ms}"


def _count(verdicts: Iterator[bool]) -> int:
    """How many items precede the first that fails the test."""
    count = 0
    for verdict in verdicts:
        if not verdict:
            break
        count += 1
    return count


@hookimpl(trylast=True)
def kafkad_register_cleanup_policies() -> Sequence[CleanupPolicy]:
    return [Retention()]
