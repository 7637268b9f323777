"""Repeat a commit after a concurrent commit of other partitions to the same table.

A commit requires that its ranges begin at the end offsets of the table. Concurrent commits of other partitions keep
this true, so the commit is repeated on the new version of the table, unless the other commit changed the same
partitions, the topic or the columns.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafkad_lakehouse.export.problems import CommitConflict
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.sinks.complete_hours import progress_after
from kafkad_lakehouse.export.sinks.sink import Commit, Sink, TableState
from kafkad_lakehouse.export.values.columns import field_paths

_MAX_ATTEMPTS = 100
"""Each failed attempt means that another export has committed."""


class Committed(NamedTuple):
    """The new version of the table, the commit, and the new marker of complete hours."""

    version: int
    commit: Commit
    complete_until: int | None


def commit_with_rebase(sink: Sink, seen: TableState, commit: Commit, partitions: Iterable[int]) -> Committed:
    """Commit, and repeat after commits of other partitions. `seen` is the state for which the commit was planned.

    Raises `CommitConflict` if another writer has committed the same partitions.
    """
    partition_numbers = sorted(partitions)
    attempts = 0
    while True:
        try:
            return Committed(sink.commit(seen, commit), commit, progress_after(seen, commit)[1])
        except CommitConflict:
            attempts += 1
            now = sink.state(partition_numbers)
            rebased = rebase(commit, seen, now)
            if rebased is None or attempts == _MAX_ATTEMPTS:
                raise
            seen, commit = now, rebased
            if not commit.ranges and not commit.lost:
                return Committed(now.version, commit, now.complete_until)


def rebase(commit: Commit, seen: TableState, now: TableState) -> Commit | None:
    """The commit for the state `now`; None if `now` contradicts the plan of the commit."""
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
        # A first commit sets the start offsets of all partitions.
        if end != before.get(partition) and end != start:
            return None
    return rebased


def _known_columns(commit: Commit, seen: TableState) -> list[object]:
    known = [commit.schema, *([] if seen.columns is None else [seen.columns])]
    return [field_paths(each) for each in known]


def _is_beginning_of_known(each: OffsetRange, now: TableState) -> bool:
    return each.start == each.end and each.partition in now.offsets
