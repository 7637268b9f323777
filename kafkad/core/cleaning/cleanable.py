"""Selects the range of a log that may be compacted, measures its dirty bytes, and decides whether it is due
(LogCleanerManager).

Offsets below the first dirty one are clean: each key has one record there. Only whole segments are cleaned: not the
active one, none beyond the last stable offset, and none with a record younger than min.compaction.lag.ms.
"""

from dataclasses import dataclass

from kafkad.core.cleanup import LogSummary, SegmentSummary, age_from
from kafkad.core.log.settings import LogConfig

_NO_CLEANED_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanableRange:
    """The segments up to `first_uncleanable_offset` are cleaned; the keys come from the dirty ones."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """The time since the oldest dirty record passed max.compaction.lag.ms; 0 if it has not."""
    next_check_ms: int | None
    """The time at which more of the log is cleanable, or it is due, without further appends; None: never."""
    was_reset: bool
    """Whether the cleaned offset is outside the log, which then counts as dirty from its start on."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        if self.overdue_ms and self.cleanable_bytes:
            return True
        return self.dirty_ratio > config.min_cleanable_dirty_ratio


def cleanable_range(log: LogSummary, config: LogConfig, now_ms: int) -> CleanableRange:
    """The range of `log` that may be compacted at `now_ms`, on the wall clock."""
    first_dirty = log.log_start_offset if log.cleaned_offset == _NO_CLEANED_OFFSET else log.cleaned_offset
    was_reset = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if was_reset:
        first_dirty = log.log_start_offset
    dirty = _sealed_from(log, first_dirty)
    young = _first_young(dirty, config, now_ms)
    bound = min(log.cleanable_end, (young or log.segments[-1]).base_offset)
    uncleanable = _segment_base(log, max(first_dirty, bound))
    oldest_ms = min((each.first_timestamp_ms for each in dirty if each.first_timestamp_ms > 0), default=None)
    overdue_ms = 0 if oldest_ms is None else max(0, now_ms - config.max_compaction_lag_ms - oldest_ms)
    ends = [] if young is None else [age_from(young) + config.min_compaction_lag_ms]
    if oldest_ms is not None and not overdue_ms:
        ends.append(oldest_ms + config.max_compaction_lag_ms + 1)
    clean_bytes = sum(each.size_bytes for each in log.segments if each.base_offset < first_dirty)
    lower = _segment_base(log, min(first_dirty, uncleanable))
    return CleanableRange(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=uncleanable,
        clean_bytes=clean_bytes,
        cleanable_bytes=sum(each.size_bytes for each in log.segments if lower <= each.base_offset < uncleanable),
        overdue_ms=overdue_ms,
        next_check_ms=min(ends, default=None),
        was_reset=was_reset,
    )


def _first_young(dirty: list[SegmentSummary], config: LogConfig, now_ms: int) -> SegmentSummary | None:
    """Records without a timestamp have the age of their file."""
    if config.min_compaction_lag_ms <= 0:
        return None
    youngest = now_ms - config.min_compaction_lag_ms
    return next((each for each in dirty if age_from(each) > youngest), None)


def _sealed_from(log: LogSummary, offset: int) -> list[SegmentSummary]:
    """The segments from the one with `offset` on, without the active one."""
    base = _segment_base(log, offset)
    return [each for each in log.segments[:-1] if each.base_offset >= base]


def _segment_base(log: LogSummary, offset: int) -> int:
    """The base offset of the segment with `offset`, or of the first segment."""
    below = [each.base_offset for each in log.segments if each.base_offset <= offset]
    return below[-1] if below else log.segments[0].base_offset
