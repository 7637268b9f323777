"""Up to when a table is complete: carried from commit to commit with the end offsets, by every kind of table."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.sinks.complete_hours import HOUR_US, completes_an_hour, hour_of, progress_after, reached_by
from kafkad_lakehouse.export.sinks.rebasing import commit_with_rebase
from kafkad_lakehouse.export.sinks.sink import Commit, TableState
from kafkad_lakehouse.export.writing import WrittenFile
from tests.lakehouse.export.sinks.test_sinks import SINKS, TOPIC, MakeSink, begun, commit_of, on_disk

BOTH = frozenset({0, 1})
NOW_US = 1_000 * HOUR_US


def of(
    partition: int, start: int, end: int, reached: Mapping[int, int], required_partitions: frozenset[int] = BOTH
) -> Commit:
    name = f"t-{partition}-{start}-{end}.parquet"
    file = WrittenFile(name, 10, partition, start, end - 1, end - start, 1, 2)
    ranges = [OffsetRange(partition, start, end)]
    return commit_of(start, end)._replace(
        ranges=ranges, files=[file], reached=reached, required_partitions=required_partitions
    )


def commits(make: MakeSink, path: Path, *made: Commit) -> TableState:
    """Each by a run of its own. Returns what the next one finds."""
    for each in made:
        sink, state = begun(make, path)
        sink.commit(state, on_disk(path, each))
    return begun(make, path)[1]


@SINKS
def test_an_hour_is_complete_when_a_later_run_takes_the_last_partition_past_it(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    state = commits(make, path, of(0, 0, 9, {0: 5 * HOUR_US}))
    assert (state.reached, state.complete_until) == ({0: 5 * HOUR_US}, None)
    state = commits(make, path, of(1, 0, 9, {1: 2 * HOUR_US}))
    assert (state.reached, state.complete_until) == ({0: 5 * HOUR_US, 1: 2 * HOUR_US}, 2 * HOUR_US)
    state = commits(make, path, of(1, 9, 12, {1: 7 * HOUR_US}))
    assert (state.reached, state.complete_until) == ({0: 5 * HOUR_US, 1: 7 * HOUR_US}, 5 * HOUR_US)


@SINKS
def test_a_late_record_takes_back_nothing(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    before = commits(make, path, of(0, 0, 9, {0: 5 * HOUR_US}, frozenset({0})))
    state = commits(make, path, of(0, 9, 12, {0: HOUR_US}, frozenset({0})))
    assert (state.reached, state.complete_until) == (before.reached, 5 * HOUR_US)
    # Nor does a partition that begins late.
    state = commits(make, path, of(1, 0, 1, {1: HOUR_US}))
    assert (state.reached, state.complete_until) == ({0: 5 * HOUR_US, 1: HOUR_US}, 5 * HOUR_US)


@SINKS
def test_commits_that_race_carry_what_both_have_reached(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    commits(make, path, of(0, 0, 5, {0: HOUR_US, 1: HOUR_US})._replace(ranges=[OffsetRange(p, 0, 5) for p in (0, 1)]))
    (here, seen_here), (there, seen_there) = begun(make, path), begun(make, path)
    here.commit(seen_here, on_disk(path, of(0, 5, 9, {0: 5 * HOUR_US})))
    commit_with_rebase(there, seen_there, on_disk(path, of(1, 5, 9, {1: 6 * HOUR_US})), BOTH)
    state = begun(make, path)[1]
    assert state.reached == {0: 5 * HOUR_US, 1: 6 * HOUR_US}
    assert state.complete_until == 5 * HOUR_US


@SINKS
def test_a_marker_that_moves_without_records_does_not_go_behind_that_of_another_run(
    make: MakeSink, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    commits(make, path, of(0, 0, 5, {0: HOUR_US}, frozenset({0})))
    (here, seen_here), (there, seen_there) = begun(make, path), begun(make, path)
    here.commit(seen_here, on_disk(path, of(0, 5, 9, {0: 9 * HOUR_US}, frozenset({0}))))
    idle = of(0, 5, 9, {0: 5 * HOUR_US}, frozenset({0}))._replace(ranges=[], files=[])
    commit_with_rebase(there, seen_there, idle, [0])
    state = begun(make, path)[1]
    assert (state.offsets, state.reached, state.complete_until) == ({0: 9}, {0: 9 * HOUR_US}, 9 * HOUR_US)


@SINKS
def test_a_marker_moves_without_records(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    idle = of(0, 5, 9, {0: 5 * HOUR_US}, frozenset({0}))._replace(ranges=[], files=[])
    state = commits(make, path, of(0, 0, 5, {0: HOUR_US}, frozenset({0})), idle)
    assert (state.offsets, state.complete_until) == ({0: 5}, 5 * HOUR_US)


@SINKS
def test_a_topic_that_was_made_again_has_no_complete_hours_yet(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    commits(make, path, of(0, 0, 9, {0: 5 * HOUR_US}, frozenset({0})))
    again = of(0, 0, 3, {0: HOUR_US})._replace(topic_id=UUID(int=8))
    state = commits(make, path, again)
    assert (state.topic_id, state.reached, state.complete_until) == (UUID(int=8), {0: HOUR_US}, None)


BEFORE = TableState("c", TOPIC, "t", {0: 5}, 1, reached={0: HOUR_US + 5}, complete_until=HOUR_US + 5)


def test_a_commit_without_records_is_worth_making_for_an_hour_only() -> None:
    nothing = of(0, 5, 9, {0: 2 * HOUR_US - 1}, frozenset({0}))._replace(ranges=[], files=[])
    assert progress_after(BEFORE, nothing)[1] == 2 * HOUR_US - 1
    assert not completes_an_hour(BEFORE, nothing)
    assert completes_an_hour(BEFORE, nothing._replace(reached={0: 2 * HOUR_US}))
    assert not completes_an_hour(BEFORE, nothing._replace(reached={0: 2 * HOUR_US}, required_partitions=BOTH))


def file_of(partition: int, newest: int | None) -> WrittenFile:
    return WrittenFile("f", 1, partition, 0, 1, 1, newest, newest)


@pytest.mark.parametrize(
    ("newest", "idle", "reached"),
    [
        ([(0, 7), (0, 5), (1, None), (2, 3)], [], {0: 7, 2: 3}),
        ([(0, -1_000)], [], {0: 0}),
        # A clock of a producer that is ahead completes no hour that is not over.
        ([(0, NOW_US + 5)], [], {0: NOW_US}),
        ([(0, 7)], [0, 1], {0: NOW_US - HOUR_US, 1: NOW_US - HOUR_US}),
        ([(0, NOW_US - 1)], [0], {0: NOW_US - 1}),
    ],
)
def test_a_run_reaches_the_newest_record_and_of_idle_partitions_the_clock(
    newest: list[tuple[int, int | None]], idle: list[int], reached: dict[int, int]
) -> None:
    assert reached_by([file_of(*each) for each in newest], NOW_US, idle, HOUR_US) == reached


def test_hours_before_the_marker_are_complete() -> None:
    assert hour_of(1_700_000_000_000_000) == datetime(2023, 11, 14, 22, tzinfo=UTC)
    assert hour_of(3 * HOUR_US) == datetime(1970, 1, 1, 3, tzinfo=UTC)
