"""cleanup.policy=compact: keeps the last record of each key.

A log is compacted when its dirty ratio exceeds min.cleanable.dirty.ratio, or a dirty record is older than
max.compaction.lag.ms. Segments below the log start offset are deleted too, because compaction would keep their files.
"""

from collections.abc import Sequence

from kafkad.api import (
    CleanupEffect,
    CleanupPolicy,
    DeleteSegments,
    LogConfig,
    LogSummary,
    RewriteSegments,
    cleanable_range,
    hookimpl,
    latest_of_each_key,
)


class Compaction:
    """The log with the highest dirty ratio is the most urgent."""

    name = "compact"

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        deletions = _below_start(log)
        if deletions:
            return deletions
        dirty_range = cleanable_range(log, config, now_ms)
        if not dirty_range.is_due(config) or dirty_range.first_uncleanable_offset <= dirty_range.first_dirty_offset:
            return []
        percent = round(100 * dirty_range.dirty_ratio)
        return [
            RewriteSegments(
                first_dirty_offset=dirty_range.first_dirty_offset,
                first_uncleanable_offset=dirty_range.first_uncleanable_offset,
                urgency=dirty_range.dirty_ratio,
                record_filter=latest_of_each_key,
                reason=f"{percent} % of it was dirty",
            )
        ]


def _below_start(log: LogSummary) -> list[DeleteSegments]:
    ends = [segment.base_offset for segment in log.segments[1:]]
    below = [
        segment.base_offset for segment, end in zip(log.segments[:-1], ends, strict=True) if end <= log.log_start_offset
    ]
    if not below:
        return []
    return [DeleteSegments(up_to_base_offset=below[-1], reason=f"log start offset {log.log_start_offset}")]


@hookimpl(trylast=True)
def kafkad_register_cleanup_policies() -> Sequence[CleanupPolicy]:
    return [Compaction()]
