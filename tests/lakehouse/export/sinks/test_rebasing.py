"""Exports of different partitions into one table: all of their commits succeed, and none is made twice."""

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkad_lakehouse.export.problems import CommitConflict
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import KEEP_LATEST
from kafkad_lakehouse.export.sinks.rebasing import commit_with_rebase, rebase
from kafkad_lakehouse.export.sinks.sink import Commit, TableState
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.values.columns import VALUE
from kafkad_lakehouse.export.writing import WrittenFile
from tests.lakehouse.export.sinks.test_sinks import MAKERS, SINKS, TOPIC, MakeSink, begun, commit_of

PARTITIONS = (0, 1)


def of(folder: Path, partition: int, start: int, end: int, *begun_too: OffsetRange, keeps: str = "all") -> Commit:
    """A commit with a file on the disk, of one record at the first offset."""
    commit = commit_of(start, end)
    name = f"t-{partition}-{start}-{end}.parquet"
    record: dict[str, list[object]] = {each: [None] for each in commit.schema.names}
    record |= {"partition": [partition], "offset": [start], "key": [b"k%d" % start], "value": [b"v"]}
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(record, schema=commit.schema), folder / name)
    size = (folder / name).stat().st_size
    file = WrittenFile(name, size, partition, start, start, 1, 1, 2)
    ranges = [OffsetRange(partition, start, end), *begun_too]
    return commit._replace(ranges=ranges, files=[file], keeps=keeps)


def partitions_in(folder: Path, paths: Sequence[str]) -> list[tuple[int, int]]:
    tables = [pq.ParquetFile(folder / path).read(["partition", "offset"]) for path in paths]
    return sorted((row["partition"], row["offset"]) for table in tables for row in table.to_pylist())


@SINKS
@pytest.mark.parametrize("commits_before", [0, 1])
@pytest.mark.parametrize("keeps", ["all", KEEP_LATEST])
def test_commits_of_different_partitions_all_succeed(
    make: MakeSink, commits_before: int, keeps: str, tmp_path: Path
) -> None:
    out = tmp_path / "t"
    if commits_before:
        sink, state = begun(make, out)
        sink.commit(state, of(out, 0, 0, 5, OffsetRange(1, 0, 0), keeps=keeps))
    start = 5 * commits_before
    here, seen_here = begun(make, out)
    there, seen_there = begun(make, out)
    # The first commit of a table says of all partitions where they begin.
    beginnings = [] if commits_before else [OffsetRange(1, 0, 0)], [] if commits_before else [OffsetRange(0, 0, 0)]
    here.commit(seen_here, of(out, 0, start, start + 7, *beginnings[0], keeps=keeps))
    made = commit_with_rebase(there, seen_there, of(out, 1, 0, 9, *beginnings[1], keeps=keeps), PARTITIONS).commit
    assert made.ends == {1: 9}
    after, state = begun(make, out)
    assert state.offsets == {0: start + 7, 1: 9}
    rows = partitions_in(out, after.files())
    assert rows == sorted([(1, 0), (0, start), *([(0, 0)] if commits_before else [])])


@SINKS
def test_a_commit_of_the_same_partition_is_not_made_behind_the_other(make: MakeSink, tmp_path: Path) -> None:
    out = tmp_path / "t"
    (here, seen_here), (there, seen_there) = begun(make, out), begun(make, out)
    here.commit(seen_here, of(out, 0, 0, 7))
    with pytest.raises(CommitConflict):
        commit_with_rebase(there, seen_there, of(out, 0, 0, 9), PARTITIONS)
    assert begun(make, out)[1].offsets == {0: 7}


def test_files_that_a_lost_attempt_wrote_anew_are_removed(tmp_path: Path) -> None:
    make, out = MAKERS[0], tmp_path / "t"
    sink, state = begun(make, out)
    sink.commit(state, of(out, 1, 0, 5, OffsetRange(0, 0, 0), keeps=KEEP_LATEST))
    (here, seen_here), (there, seen_there) = begun(make, out), begun(make, out)
    here.commit(seen_here, of(out, 0, 0, 7, keeps=KEEP_LATEST))
    commit_with_rebase(there, seen_there, of(out, 1, 5, 9, keeps=KEEP_LATEST), PARTITIONS)
    after = begun(make, out)[0].files()
    # What the commit has replaced is left to maintenance.
    assert set(TableFolder(str(out)).names()) == {*after, "t-1-0-5.parquet"}
    assert partitions_in(out, after) == [(0, 0), (1, 0), (1, 5)]


BEFORE = TableState("c", TOPIC, "t", {0: 5}, 1, commit_of(5, 9).schema)
OTHER_COLUMNS = pa.schema([*commit_of(5, 9).schema, pa.field(VALUE, pa.struct([("a", pa.int64())]))])


@pytest.mark.parametrize(
    ("now", "is_made"),
    [
        (BEFORE._replace(offsets={0: 5, 1: 9}), True),
        (BEFORE._replace(offsets={0: 6}), False),
        (BEFORE._replace(offsets={}), False),
        (BEFORE._replace(cluster_id="d"), False),
        (BEFORE._replace(topic_id=UUID(int=8)), False),
        (BEFORE._replace(keeps=KEEP_LATEST), False),
        (BEFORE._replace(columns=OTHER_COLUMNS), False),
        (BEFORE._replace(columns=None), False),
    ],
)
def test_a_commit_is_made_behind_others_only_where_it_was_planned(now: TableState, is_made: bool) -> None:
    assert (rebase(commit_of(5, 9), BEFORE, now) is not None) == is_made


def test_what_is_lost_begins_where_the_table_ends() -> None:
    commit = commit_of(8, 9, lost=(OffsetRange(0, 5, 8),))
    assert rebase(commit, BEFORE, BEFORE) == commit
    assert rebase(commit, BEFORE, BEFORE._replace(offsets={0: 8})) is None
