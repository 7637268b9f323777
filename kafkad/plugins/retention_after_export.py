"""cleanup.policy=delete-exported: what `delete` lets go, but only after every export has it.

A partition that no group `kafkad-export-…` has committed an offset for keeps everything, which is told once a topic:
the disk fills up otherwise without a reason that anybody sees.
"""

import logging
from collections.abc import Sequence

from kafkad.api import (
    NO_EXPORT,
    CleanupEffect,
    CleanupPolicy,
    LogConfig,
    LogSummary,
    exported_segments,
    hookimpl,
    old_segments,
)

log = logging.getLogger(__name__)

_REMEMBERED = 10_000


class RetentionAfterExport:
    """retention.ms and retention.bytes up to the exported offset, and the log start offset."""

    name = "delete-exported"

    def __init__(self) -> None:
        self._told: set[str] = set()
        """Topics of which the log says already that nobody exports them."""

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        if log.exported_offset == NO_EXPORT and old_segments(log, config, now_ms) is not None:
            self._tell(log.topic, log.partition)
        elif log.exported_offset is not None and log.exported_offset != NO_EXPORT:
            self._told.discard(log.topic)
        found = exported_segments(log, config, now_ms)
        return [] if found is None else [found]

    def _tell(self, topic: str, partition: int) -> None:
        if topic in self._told:
            return
        if len(self._told) >= _REMEMBERED:
            self._told.clear()
        self._told.add(topic)
        log.warning(
            "%s-%d: cleanup.policy=delete-exported deletes nothing, as no group kafkad-export-… has committed an "
            "offset for this partition",
            topic,
            partition,
        )


@hookimpl(trylast=True)
def kafkad_register_cleanup_policies() -> Sequence[CleanupPolicy]:
    return [RetentionAfterExport()]
