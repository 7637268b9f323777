"""The sealed segments that a pass reads, in groups for one new segment each (Cleaner.groupSegmentsBySize)."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkad.core.log.segments.index import LARGEST_RELATIVE_OFFSET
from kafkad.core.log.settings import LogConfig

_MAX_SEGMENTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """A sealed segment at the time when the pass was granted."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int


def group_segments(
    segments: Sequence[SourceSegment], config: LogConfig, first_uncleanable_offset: int
) -> list[tuple[SourceSegment, ...]]:
    """Adjacent segments that together are no larger than one segment may be, in order.

    The number per group is limited, because the owner replaces a group in one step.
    """
    groups: list[tuple[SourceSegment, ...]] = []
    group: list[SourceSegment] = []
    for number, segment in enumerate(segments):
        following = segments[number + 1 : number + 2]
        end = following[0].base_offset if following else first_uncleanable_offset
        if group and not _fits(group, segment, end, config):
            groups.append(tuple(group))
            group = []
        group.append(segment)
    if group:
        groups.append(tuple(group))
    return groups


def _fits(group: Sequence[SourceSegment], segment: SourceSegment, end: int, config: LogConfig) -> bool:
    """Whether `segment`, with offsets below `end`, fits into the group."""
    together = [*group, segment]
    if len(group) == _MAX_SEGMENTS:
        return False
    if segment.size and end - 1 - group[0].base_offset > LARGEST_RELATIVE_OFFSET:
        return False
    return (
        sum(each.size for each in together) <= config.segment_bytes
        and sum(each.index_bytes for each in together) <= config.segment_index_bytes
        and sum(each.time_index_bytes for each in together) <= config.segment_index_bytes
    )
