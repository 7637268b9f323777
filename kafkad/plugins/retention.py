"""cleanup.policy=delete: deletes old segments, by time and by size.

A record with a timestamp in the future keeps its segment and all later segments until then. This is logged once,
because retention.ms seems to have no effect.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from kafkad.api import (
    CleanupEffect,
    CleanupPolicy,
    LogConfig,
    LogSummary,
    age_from,
    first_kept_by_time,
    hookimpl,
    old_segments,
)

log = logging.getLogger(__name__)

_CLOCK_TOLERANCE_MS = 3_600_000
"""Tolerated difference of clocks; by default brokers accept it too (message.timestamp.after.max.ms)."""
_MAX_LOGGED = 10_000


class Retention:
    """retention.ms, retention.bytes and the log start offset."""

    name = "delete"

    def __init__(self) -> None:
        self._logged: dict[tuple[str, int], int] = {}
        """The logged segment of each partition."""

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        self._log_future_records(log, config, now_ms)
        effect = old_segments(log, config, now_ms)
        return [] if effect is None else [effect]

    def _log_future_records(self, summary: LogSummary, config: LogConfig, now_ms: int) -> None:
        partition = (summary.topic, summary.partition)
        segment = first_kept_by_time(summary, config, now_ms)
        if segment is None or age_from(segment) <= now_ms + _CLOCK_TOLERANCE_MS:
            self._logged.pop(partition, None)
            return
        if self._logged.get(partition) == segment.base_offset:
            return
        if len(self._logged) >= _MAX_LOGGED:
            self._logged.clear()
        self._logged[partition] = segment.base_offset
        log.warning(
            "%s-%d: the segment at offset %d has a record of %s, which is in the future: "
            "retention.ms keeps this segment and those after it until then",
            *partition,
            segment.base_offset,
            _formatted(age_from(segment)),
        )


def _formatted(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"timestamp {timestamp_ms}"


@hookimpl(trylast=True)
def kafkad_register_cleanup_policies() -> Sequence[CleanupPolicy]:
    return [Retention()]
