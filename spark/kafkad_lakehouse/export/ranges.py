"""The offsets of each partition that a run exports, and their division among tasks. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from kafkad_lakehouse.export.problems import DataLost, ExportFailed


class OffsetRange(NamedTuple):
    """The records of a partition from `start` up to but not including `end`; there may be gaps."""

    partition: int
    start: int
    end: int


class Bounds(NamedTuple):
    """The log of a partition, from `earliest` up to but not including `end` (last stable offset or high watermark)."""

    earliest: int
    end: int


class TopicFacts(NamedTuple):
    """The state of a topic in its cluster."""

    cluster_id: str
    name: str
    topic_id: UUID
    bounds: Mapping[int, Bounds]
    elsewhere: frozenset[int] = frozenset()
    """Partitions that exports on other machines read."""

    @property
    def partitions(self) -> list[int]:
        return sorted({*self.bounds, *self.elsewhere})


class Plan(NamedTuple):
    """`lost` are ranges that were not exported and that the log no longer has."""

    ranges: tuple[OffsetRange, ...]
    lost: tuple[OffsetRange, ...]


def plan(
    facts: TopicFacts,
    committed: Mapping[int, int],
    *,
    starts: Mapping[int, int] | None = None,
    ends: Mapping[int, int] | None = None,
    skips_lost: bool = False,
) -> Plan:
    """The ranges after `committed`, the end offsets of the table.

    A partition that the table does not have begins at `starts`, or at its log start offset. `ends` may limit the
    ranges. Raises `DataLost` for offsets that the log no longer has, unless `skips_lost`.
    """
    gaps = lost_of(facts, committed, starts=starts, ends=ends)
    ranges, lost = [], []
    for partition, bounds in sorted(facts.bounds.items()):
        end = min(bounds.end, (ends or {}).get(partition, bounds.end))
        known = committed.get(partition)
        start = _start(partition, bounds, committed, starts)
        if known is not None and known > bounds.end:
            raise ExportFailed(
                f"{facts.name}-{partition}: the table ends at offset {known}, after the end {bounds.end} of the log:"
                " another topic of this name, a truncated log, or an export with --isolation read_uncommitted"
            )
        gap = gaps.get(partition)
        if gap is not None:
            if not skips_lost:
                raise DataLost(
                    f"{facts.name}-{partition}: offsets {gap.start} to {gap.end - 1} are no longer in the log;"
                    " --on-data-loss skip continues after them"
                )
            lost.append(gap)
        start = max(start, bounds.earliest)
        if start < end:
            ranges.append(OffsetRange(partition, start, end))
    return Plan(tuple(ranges), tuple(lost))


def lost_of(
    facts: TopicFacts,
    committed: Mapping[int, int],
    *,
    starts: Mapping[int, int] | None = None,
    ends: Mapping[int, int] | None = None,
) -> dict[int, OffsetRange]:
    """By partition: the offsets to export next that the log no longer has."""
    found = {}
    for partition, bounds in facts.bounds.items():
        end = min(bounds.end, (ends or {}).get(partition, bounds.end))
        start = _start(partition, bounds, committed, starts)
        gap = OffsetRange(partition, start, min(bounds.earliest, max(end, start)))
        if gap.end > gap.start:
            found[partition] = gap
    return found


def _start(partition: int, bounds: Bounds, committed: Mapping[int, int], starts: Mapping[int, int] | None) -> int:
    known = committed.get(partition)
    return known if known is not None else (starts or {}).get(partition, bounds.earliest)


def split_evenly(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    """At most `pieces` pieces with equal numbers of offsets, for a source without an index."""
    count = max(1, min(pieces, whole.end - whole.start))
    edges = [whole.start + (whole.end - whole.start) * number // count for number in range(count + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(edges)]


def split_at(whole: OffsetRange, places: Sequence[int]) -> list[OffsetRange]:
    """Split the range at these offsets."""
    edges = [whole.start, *(place for place in sorted(set(places)) if whole.start < place < whole.end), whole.end]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(edges)]
