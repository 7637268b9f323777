"""Exports of different partitions into one table: when another one has committed first, the commit is made behind it.

What a commit promises is that its partitions go on where the table ends; what others have added meanwhile changes
nothing of that. So it is made again on the table as it is now, unless the other commit was about the same partitions,
another topic or other columns.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafkad.export.problems import AnotherExport
from kafkad.export.ranges import OffsetRange
from kafkad.export.sinks.complete_hours import carried
from kafkad.export.sinks.sink import Commit, Sink, TableState
from kafkad.export.values.columns import field_paths

_MOST_ATTEMPTS = 100
"""Each that fails is one that another export has won."""


class Committed(NamedTuple):
    """The new version of the table, what was committed, and up to when the table is complete with it."""

    version: int
    commit: Commit
    complete_until: int | None


def commit_behind_others(sink: Sink, seen: TableState, commit: Commit, partitions: Iterable[int]) -> Committed:
    """`seen` is the table when the commit was planned.

    Raises `AnotherExport` if somebody else has committed the same partitions.
    """
    asked = sorted(partitions)
    attempts = 0
    while True:
        try:
            return Committed(sink.commit(seen, commit), commit, carried(seen, commit)[1])
        except AnotherExport:
            attempts += 1
            now = sink.state(asked)
            rebased = rebase(commit, seen, now)
            if rebased is None or attempts == _MOST_ATTEMPTS:
                raise
            seen, commit = now, rebased
            if not commit.ranges and not commit.lost:
                return Committed(now.version, commit, now.complete_until)


def rebase(commit: Commit, seen: TableState, now: TableState) -> Commit | None:
    """The commit as it can be made on the table as it is `now`; None if it was planned on something else."""
    if (now.cluster_id, now.topic_id, now.keeps) != (commit.cluster_id, commit.topic_id, commit.keeps):
        return None
    if (
        now.has_dates != seen.has_dates
        or now.columns is None
        or field_paths(now.columns) not in _known_columns(commit, seen)
    ):
        return None
    ranges = [each for each in commit.ranges if not _is_beginning_of_known(each, now)]
    rebased = commit._replace(ranges=ranges)
    before = commit.known(seen)
    for partition, start in rebased.starts.items():
        end = now.offsets.get(partition)
        # A first commit says of all partitions where they begin: of ours, too.
        if end != before.get(partition) and end != start:
            return None
    return rebased


def _known_columns(commit: Commit, seen: TableState) -> list[object]:
    known = [commit.schema, *([] if seen.columns is None else [seen.columns])]
    return [field_paths(each) for each in known]


def _is_beginning_of_known(each: OffsetRange, now: TableState) -> bool:
    return each.start == each.end and each.partition in now.offsets
