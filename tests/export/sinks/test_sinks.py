"""Tables: one commit has files and end offsets, and of two exports that race only one commits."""

import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from kafkad.export.places import TableFolder
from kafkad.export.problems import AnotherExport, ExportFailed
from kafkad.export.ranges import OffsetRange
from kafkad.export.sinks.delta import DeltaSink
from kafkad.export.sinks.parquet import ParquetSink
from kafkad.export.sinks.sink import Commit, Sink, TableState
from kafkad.export.task import WrittenFile

TOPIC = UUID(int=7)
MakeSink = Callable[[Path], Sink]
SINKS = pytest.mark.parametrize(
    "make", [lambda path: ParquetSink(TableFolder(str(path))), lambda path: DeltaSink(TableFolder(str(path)), "none")]
)


def commit_of(start: int, end: int, *, lost: tuple[OffsetRange, ...] = ()) -> Commit:
    file = WrittenFile(f"t-0-{start}-{end}.parquet", 10, 0, start, end - 1, end - start, 1, 2)
    return Commit("c", TOPIC, "t", [OffsetRange(0, start, end)], lost, [file], "run", 2)


def begun(make: MakeSink, path: Path) -> tuple[Sink, TableState]:
    sink = make(path)
    return sink, sink.state([0, 1])


@SINKS
def test_a_table_that_is_not_there_has_nothing(make: MakeSink, tmp_path: Path) -> None:
    sink, state = begun(make, tmp_path / "t")
    assert (state.topic_id, state.offsets, sink.files()) == (None, {}, [])


@SINKS
def test_a_commit_is_seen_by_the_next_run(make: MakeSink, tmp_path: Path) -> None:
    sink, state = begun(make, tmp_path / "t")
    sink.commit(state, commit_of(0, 10))
    after, state = begun(make, tmp_path / "t")
    assert (state.cluster_id, state.topic_id, state.topic, state.offsets) == ("c", TOPIC, "t", {0: 10})
    assert after.files() == ["t-0-0-10.parquet"]
    after.commit(state, commit_of(10, 12))
    assert begun(make, tmp_path / "t")[1].offsets == {0: 12}


@SINKS
def test_what_was_lost_moves_the_end_of_its_partition(make: MakeSink, tmp_path: Path) -> None:
    sink, state = begun(make, tmp_path / "t")
    sink.commit(state, Commit("c", TOPIC, "t", [], (OffsetRange(1, 0, 5),), [], "run", None))
    assert begun(make, tmp_path / "t")[1].offsets == {1: 5}


@SINKS
@pytest.mark.parametrize("commits_before", [0, 1])
def test_of_two_exports_that_race_one_commits(make: MakeSink, commits_before: int, tmp_path: Path) -> None:
    for number in range(commits_before):
        sink, state = begun(make, tmp_path / "t")
        sink.commit(state, commit_of(number * 10, number * 10 + 10))
    start = commits_before * 10
    (one, seen_by_one), (other, seen_by_other) = begun(make, tmp_path / "t"), begun(make, tmp_path / "t")
    one.commit(seen_by_one, commit_of(start, start + 5))
    with pytest.raises(AnotherExport):
        other.commit(seen_by_other, commit_of(start, start + 7))
    assert begun(make, tmp_path / "t")[1].offsets == {0: start + 5}


@SINKS
def test_a_folder_of_somebody_else_is_refused(make: MakeSink, tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(ExportFailed, match="has files of somebody else"):
        begun(make, tmp_path)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "_kafkad_log"
    folder.mkdir()
    (folder / f"{0:020d}.json").write_text("{")
    with pytest.raises(ExportFailed, match="is damaged"):
        ParquetSink(TableFolder(str(tmp_path))).state([])
    (folder / f"{0:020d}.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ExportFailed, match="newer kafkad"):
        ParquetSink(TableFolder(str(tmp_path))).state([])


def test_parquet_tables_are_on_a_disk() -> None:
    with pytest.raises(ExportFailed, match="--format delta"):
        ParquetSink(TableFolder("mock://lake/t"))
