"""A cleanup policy that keeps the newest segments of each partition, however old or large they are.

A topic chooses it with `cleanup.policy=keep-newest`, and how many it keeps with `kafkad.plugin.keep.newest.segments`:
3 unless the broker's option of the same name says otherwise. Nothing above the high watermark is dropped.
"""

from collections.abc import Mapping, Sequence

from kafkad.api import (
    Between,
    CleanupEffect,
    CleanupPolicy,
    DeleteSegments,
    LogConfig,
    LogSummary,
    SettingType,
    TopicConfig,
    hookimpl,
)

kafkad_requires = 1
SEGMENTS = "kafkad.plugin.keep.newest.segments"


class KeepNewest:
    name = "keep-newest"

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        count = config.plugin_configs[SEGMENTS]
        assert isinstance(count, int), "the broker has checked it"
        # A segment lies below the high watermark when the next one does, and a next one there always is.
        following = log.segments[1:]
        below = [
            segment
            for segment, after in zip(log.segments[:-count], following, strict=False)
            if after.base_offset <= log.high_watermark
        ]
        if not below:
            return []
        return [DeleteSegments(up_to_base_offset=below[-1].base_offset, reason=f"{SEGMENTS}={count}")]


@hookimpl
def kafkad_register_cleanup_policies() -> Sequence[CleanupPolicy]:
    return [KeepNewest()]


@hookimpl
def kafkad_register_topic_configs(settings: Mapping[str, str]) -> Sequence[TopicConfig]:
    return [
        TopicConfig(
            name=SEGMENTS,
            type=SettingType.INT,
            default=int(settings.get(SEGMENTS, "3")),
            documentation="How many of its newest segments a partition keeps.",
            validator=Between(1),
        )
    ]
