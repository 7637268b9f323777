"""cleanup.policy=delete-exported: deletes the same segments as `delete`, but only after all exports have read them.

A partition without a committed offset of a group `kafkad-export-…` keeps all segments. This is logged once per topic,
because it may fill the disk.
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

_MAX_LOGGED = 10_000


class RetentionAfterExport:
    """retention.ms and retention.bytes up to the exported offset, and the log start offset."""

    name = "delete-exported"

    def __init__(self) -> None:
        self._logged: set[str] = set()
        """The topics with a logged warning."""

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        if log.exported_offset == NO_EXPORT and old_segments(log, config, now_ms) is not None:
            self._log_missing_export(log.topic, log.partition)
        elif log.exported_offset is not None and log.exported_offset != NO_EXPORT:
            self._logged.discard(log.topic)
        effect = exported_segments(log, config, now_ms)
        return [] if effect is None else [effect]

    def _log_missing_export(self, topic: str, partition: int) -> None:
        if topic in self._logged:
            return
        if len(self._logged) >= _MAX_LOGGED:
            self._logged.clear()
        self._logged.add(topic)
        log.warning(
            "%s-%d: cleanup.policy=delete-exported deletes nothing, because no group kafkad-export-… has committed an "
            "offset for this partition",
            topic,
            partition,
        )


@hookimpl(trylast=True)
def kafkad_register_cleanup_policies() -> Sequence[CleanupPolicy]:
    return [RetentionAfterExport()]
