"""A cleanup policy that keeps the newest segments of each partition, however old or large they are.

A topic chooses it with `cleanup.policy=keep-newest-3`. Nothing above the high watermark is dropped.
"""

from collections.abc import Sequence

from kafkad.api import CleanupEffect, CleanupPolicy, DeleteSegments, LogConfig, LogSummary, hookimpl

kafkad_requires = 1


class KeepNewest:
    def __init__(self, count: int) -> None:
        self.name = f"keep-newest-{count}"
        self._count = count

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        surplus = log.segments[: -self._count]
        # A segment lies below the high watermark when the next one does, and a next one there always is.
        following = log.segments[1:]
        below = [
            segment
            for segment, after in zip(surplus, following, strict=False)
            if after.base_offset <= log.high_watermark
        ]
        if not below:
            return []
        return [DeleteSegments(up_to_base_offset=below[-1].base_offset, reason=self.name)]


@hookimpl
def kafkad_register_cleanup_policies() -> Sequence[CleanupPolicy]:
    return [KeepNewest(1), KeepNewest(3), KeepNewest(10)]
