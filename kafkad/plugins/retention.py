"""cleanup.policy=delete: old segments go, by time and by size.

A record from the future keeps its segment, and all after it, until its time has come: this is told once, as
retention.ms seems to have no effect.
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
        self._tell_of_future(log, config, now_ms)
        found = old_segments(log, config, now_ms)
        return [] if found is None else [found]

    def _tell_of_future(self, of: LogSummary, config: LogConfig, now_ms: int) -> None:
        partition = (of.topic, of.partition)
        segment = first_kept_by_time(of, config, now_ms)
        if segment is None or age_from(segment) <= now_ms + _CLOCKS_DIFFER_MS:
            self._told.pop(partition, None)
            return
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
            _in_words(age_from(segment)),
        )


def _in_words(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"timestamp {timestamp_ms}"


@hookimpl(trylast=True)
def kafkad_register_cleanup_policies() -> Sequence[CleanupPolicy]:
    return [Retention()]
