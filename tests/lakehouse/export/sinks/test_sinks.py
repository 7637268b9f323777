"""Tables: one commit has files and end offsets, and of two exports that race only one commits."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.run import orphans
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.sinks import foreign_files
from kafkad_lakehouse.export.sinks.delta import DeltaSink
from kafkad_lakehouse.export.sinks.iceberg import IcebergSink
from kafkad_lakehouse.export.sinks.parquet import ParquetSink
from kafkad_lakehouse.export.sinks.sink import Commit, Sink, TableState
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.values.columns import VALUE
from kafkad_lakehouse.export.writing import END_US, FIRST_US, WrittenFile

TOPIC = UUID(int=7)
MakeSink = Callable[[Path], Sink]
MAKERS: list[MakeSink] = [
    lambda path: ParquetSink(TableFolder(str(path))),
    lambda path: DeltaSink(TableFolder(str(path)), "none"),
    lambda path: IcebergSink(TableFolder(str(path)), "none", "", "kafkad.t"),
]
SINKS = pytest.mark.parametrize("make", MAKERS, ids=["parquet", "delta", "iceberg"])


def commit_of(start: int, end: int, *, lost: tuple[OffsetRange, ...] = ()) -> Commit:
    file = WrittenFile(f"t-0-{start}-{end}.parquet", 10, 0, start, end - 1, end - start, 1, 2)
    return Commit("c", TOPIC, "t", [OffsetRange(0, start, end)], lost, [file], "run", {0: 2})


def on_disk(path: Path, commit: Commit) -> Commit:
    """With its files, each of a single record."""
    for file in commit.files:
        path.mkdir(exist_ok=True)
        record = {name: [None] for name in commit.schema.names} | {
            "partition": [file.partition],
            "offset": [file.first_offset],
        }
        pq.write_table(pa.table(record, schema=commit.schema), path / file.path)
    return commit


def begun(make: MakeSink, path: Path) -> tuple[Sink, TableState]:
    sink = make(path)
    return sink, sink.state([0, 1])


def run_file(start: int, end: int) -> str:
    """The name of a file as runs write it."""
    return f"t-0-{start:020d}-{end - 1:020d}-20261123T085929-a807edfe.parquet"


def exported(make: MakeSink, path: Path) -> None:
    """A table of one commit, whose file has the name of a run that has ended."""
    sink, state = begun(make, path)
    commit = commit_of(0, 10)
    sink.commit(state, on_disk(path, commit._replace(files=[commit.files[0]._replace(path=run_file(0, 10))])))


@SINKS
def test_a_table_that_is_not_there_has_nothing(make: MakeSink, tmp_path: Path) -> None:
    sink, state = begun(make, tmp_path / "t")
    assert (state.topic_id, state.offsets, sink.files()) == (None, {}, [])


def test_readers_of_a_delta_table_may_skip_files_by_their_times(tmp_path: Path) -> None:
    sink, state = begun(MAKERS[1], tmp_path / "t")
    bounds = [(1_500_001, 1_700_000_000_000_001), (FIRST_US, END_US - 1_000), (FIRST_US - 1, 1), (1, END_US - 999)]
    files = [WrittenFile(f"t-{at}.parquet", 10, 0, 0, 9, 10, *each) for at, each in enumerate(bounds)]
    sink.commit(state, commit_of(0, 10)._replace(files=files))
    added = pa.table(DeltaTable(str(tmp_path / "t")).get_add_actions(flatten=True)).to_pylist()
    times = [(row["min.timestamp"], row["max.timestamp"]) for row in sorted(added, key=lambda row: row["path"])]
    assert times == [
        (datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC), datetime(2023, 11, 14, 22, 13, 20, 1_000, UTC)),
        (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
        (None, None),
        (None, None),
    ]


@SINKS
def test_a_commit_is_seen_by_the_next_run(make: MakeSink, tmp_path: Path) -> None:
    sink, state = begun(make, tmp_path / "t")
    sink.commit(state, on_disk(tmp_path / "t", commit_of(0, 10)))
    after, state = begun(make, tmp_path / "t")
    assert (state.cluster_id, state.topic_id, state.topic, state.offsets) == ("c", TOPIC, "t", {0: 10})
    assert after.files() == ["t-0-0-10.parquet"]
    after.commit(state, on_disk(tmp_path / "t", commit_of(10, 12)))
    assert begun(make, tmp_path / "t")[1].offsets == {0: 12}


@SINKS
def test_what_was_lost_moves_the_end_of_its_partition(make: MakeSink, tmp_path: Path) -> None:
    sink, state = begun(make, tmp_path / "t")
    sink.commit(state, on_disk(tmp_path / "t", Commit("c", TOPIC, "t", [], (OffsetRange(1, 0, 5),), [], "run", {})))
    assert begun(make, tmp_path / "t")[1].offsets == {1: 5}


@SINKS
@pytest.mark.parametrize("commits_before", [0, 1])
def test_of_two_exports_that_race_one_commits(make: MakeSink, commits_before: int, tmp_path: Path) -> None:
    for number in range(commits_before):
        sink, state = begun(make, tmp_path / "t")
        sink.commit(state, on_disk(tmp_path / "t", commit_of(number * 10, number * 10 + 10)))
    start = commits_before * 10
    (one, seen_by_one), (other, seen_by_other) = begun(make, tmp_path / "t"), begun(make, tmp_path / "t")
    one.commit(seen_by_one, on_disk(tmp_path / "t", commit_of(start, start + 5)))
    with pytest.raises(CommitConflict):
        other.commit(seen_by_other, on_disk(tmp_path / "t", commit_of(start, start + 7)))
    assert begun(make, tmp_path / "t")[1].offsets == {0: start + 5}


@SINKS
def test_of_two_exports_that_race_without_files_one_commits(make: MakeSink, tmp_path: Path) -> None:
    sink, state = begun(make, tmp_path / "t")
    sink.commit(state, on_disk(tmp_path / "t", commit_of(0, 10)))
    (one, seen_by_one), (other, seen_by_other) = begun(make, tmp_path / "t"), begun(make, tmp_path / "t")
    one.commit(seen_by_one, commit_of(10, 15)._replace(files=[]))
    with pytest.raises(CommitConflict):
        other.commit(seen_by_other, commit_of(10, 17)._replace(files=[]))
    assert begun(make, tmp_path / "t")[1].offsets == {0: 15}


@SINKS
def test_a_folder_of_somebody_else_is_refused(make: MakeSink, tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(ExportFailed, match="has other files"):
        begun(make, tmp_path)


@SINKS
def test_a_folder_that_has_other_folders_is_refused(make: MakeSink, tmp_path: Path) -> None:
    """The tables of other topics, say, one of whose names is missing at the end of the path."""
    for name in ("date=2026-11-26", "lost+found", ".snapshot", "_tmp"):
        (tmp_path / name).mkdir()
    assert begun(make, tmp_path)[1].topic_id is None
    (tmp_path / "orders").mkdir()
    with pytest.raises(ExportFailed, match="has other files \\(orders/\\)"):
        begun(make, tmp_path)


@SINKS
def test_files_of_an_export_that_was_killed_before_its_first_commit_are_no_strangers(
    make: MakeSink, tmp_path: Path
) -> None:
    run_id = "20261123T085929-a807edfe"
    (tmp_path / f"a-topic-12-00000000000000000001-00000000000000000005-{run_id}.parquet").touch()
    (tmp_path / "_tmp" / run_id).mkdir(parents=True)
    assert begun(make, tmp_path)[1].topic_id is None


def test_a_table_of_another_kind_is_refused(tmp_path: Path) -> None:
    for number, (make, other) in enumerate(pairwise([*MAKERS, MAKERS[0]])):
        path = tmp_path / str(number)
        exported(make, path)
        with pytest.raises(ExportFailed, match="is a table of another format"):
            begun(other, path)


@SINKS
@pytest.mark.parametrize("is_emptied", [False, True])
def test_files_without_the_log_of_their_table_are_refused(make: MakeSink, is_emptied: bool, tmp_path: Path) -> None:
    """A table without its log or catalog is not a new one: all records would be exported again."""
    out = tmp_path / "t"
    exported(make, out)
    for log in (out / "_kafkad_log", out / "_delta_log"):
        if log.is_dir():
            shutil.rmtree(log)
            if is_emptied:
                log.mkdir()
    if (out / "_catalog.db").exists():
        (out / "_catalog.db").unlink()
        if is_emptied:
            (out / "_catalog.db").touch()
    with pytest.raises(ExportFailed, match="is missing: every record would be exported again"):
        begun(make, out)


@SINKS
def test_a_first_commit_of_another_export_is_not_taken_for_a_lost_log(
    make: MakeSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after the read of the log and before the list of the files."""

    def commit_first(folder: TableFolder) -> list[str]:
        monkeypatch.undo()
        exported(make, tmp_path / "t")
        return foreign_files.files_of_runs(folder)

    monkeypatch.setattr(foreign_files, "files_of_runs", commit_first)
    assert begun(make, tmp_path / "t")[1].offsets == {0: 10}


@pytest.mark.parametrize("copies", [False, True])
def test_a_moved_iceberg_table_is_refused_with_the_cause(tmp_path: Path, copies: bool) -> None:
    exported(MAKERS[2], tmp_path / "t")
    if copies:
        shutil.copytree(tmp_path / "t", tmp_path / "u")
    else:
        (tmp_path / "t").rename(tmp_path / "u")
    with pytest.raises(ExportFailed, match="Paths in an Iceberg table are absolute"):
        begun(MAKERS[2], tmp_path / "u")


def test_an_iceberg_table_is_found_by_another_path_of_its_folder(tmp_path: Path) -> None:
    exported(MAKERS[2], tmp_path / "t")
    (tmp_path / "u").symlink_to(tmp_path / "t")
    sink, state = begun(MAKERS[2], tmp_path / "u")
    assert (state.offsets, sink.files()) == ({0: 10}, [run_file(0, 10)])
    assert orphans(TableFolder(str(tmp_path / "u")), sink, 0.0) == []
    commit = commit_of(10, 12)
    sink.commit(
        state, on_disk(tmp_path / "t", commit._replace(files=[commit.files[0]._replace(path=run_file(10, 12))]))
    )
    assert begun(MAKERS[2], tmp_path / "t")[0].files() == [run_file(0, 10), run_file(10, 12)]


def test_a_table_that_another_catalog_knows_is_refused(tmp_path: Path) -> None:
    iceberg, out = MAKERS[2], tmp_path / "t"
    for number in range(2):
        sink, state = begun(iceberg, out)
        sink.commit(state, commit_of(number * 10, number * 10 + 10)._replace(files=[]))
    for catalog, name in ((f"sqlite:///{tmp_path}/other.db", "kafkad.t"), ("", "kafkad.u")):
        with pytest.raises(ExportFailed, match=r"has an Iceberg table that is not kafkad\.[tu] of this catalog"):
            IcebergSink(TableFolder(str(out)), "none", catalog, name).state([0])


def with_columns(commit: Commit, *fields: tuple[str, pa.DataType]) -> Commit:
    return commit._replace(schema=pa.schema([*RECORDS, pa.field(VALUE, pa.struct(fields))]))


def columns_of(make: MakeSink, path: Path) -> list[str]:
    columns = begun(make, path)[1].columns
    assert columns is not None
    return [field.name for field in columns.field(VALUE).type] if VALUE in columns.names else []


@SINKS
def test_a_commit_brings_new_columns_and_the_table_keeps_them(make: MakeSink, tmp_path: Path) -> None:
    sink, state = begun(make, tmp_path / "t")
    sink.commit(state, on_disk(tmp_path / "t", commit_of(0, 10)))
    assert columns_of(make, tmp_path / "t") == []
    fields = [("a", pa.int64()), ("b", pa.string())]
    for number, count in ((1, 1), (2, 2)):
        sink, state = begun(make, tmp_path / "t")
        sink.commit(
            state, on_disk(tmp_path / "t", with_columns(commit_of(number * 10, number * 10 + 10), *fields[:count]))
        )
        assert columns_of(make, tmp_path / "t") == ["a", "b"][:count]
    after, state = begun(make, tmp_path / "t")
    assert (state.offsets, len(after.files())) == ({0: 30}, 3)


@SINKS
def test_a_topic_that_was_made_again_begins_anew_and_goes_on(make: MakeSink, tmp_path: Path) -> None:
    sink, state = begun(make, tmp_path / "t")
    sink.commit(state, on_disk(tmp_path / "t", commit_of(0, 10)))
    sink, state = begun(make, tmp_path / "t")
    again = commit_of(0, 3)._replace(topic_id=UUID(int=8), ranges=[OffsetRange(1, 0, 3)])
    sink.commit(state, on_disk(tmp_path / "t", again))
    sink, state = begun(make, tmp_path / "t")
    assert (state.topic_id, state.offsets, sink.begins(state)) == (UUID(int=8), {1: 3}, {1: 0})
    assert len(sink.files()) == 2 and state.has_earlier_topic
    more = again._replace(ranges=[OffsetRange(1, 3, 4)], files=[])
    sink.commit(state, more)
    assert begun(make, tmp_path / "t")[1].has_earlier_topic


@SINKS
def test_a_table_says_where_each_partition_begins_in_it(make: MakeSink, tmp_path: Path) -> None:
    for commit in (commit_of(5, 9), commit_of(9, 12)._replace(ranges=[OffsetRange(0, 9, 12), OffsetRange(1, 3, 3)])):
        sink, state = begun(make, tmp_path / "t")
        sink.commit(state, on_disk(tmp_path / "t", commit))
    sink, state = begun(make, tmp_path / "t")
    assert (sink.begins(state), state.partition_by, state.has_earlier_topic) == ({0: 5, 1: 3}, "none", False)


@pytest.mark.parametrize("partition_by", ["none", "day", "hour"])
def test_a_parquet_table_of_an_earlier_version_is_divided_as_its_files_are(tmp_path: Path, partition_by: str) -> None:
    with_file = commit_of(0, 10)
    files = with_file.files
    if partition_by != "none":
        files = [file._replace(date="2026-11-26") for file in files]
    if partition_by == "hour":
        files = [file._replace(hour="07") for file in files]
    for commit in (with_file._replace(files=files), commit_of(10, 20)._replace(files=[])):
        sink, state = begun(MAKERS[0], tmp_path)
        sink.commit(state, commit)
    for manifest in (tmp_path / "_kafkad_log").iterdir():
        content = json.loads(manifest.read_bytes())
        del content["partition_by"]
        manifest.write_text(json.dumps(content))
    assert begun(MAKERS[0], tmp_path)[1].partition_by == partition_by


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "_kafkad_log"
    folder.mkdir()
    (folder / f"{0:020d}.json").write_text("{")
    with pytest.raises(ExportFailed, match="is damaged"):
        ParquetSink(TableFolder(str(tmp_path))).state([])
    (folder / f"{0:020d}.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ExportFailed, match="newer kafkad"):
        ParquetSink(TableFolder(str(tmp_path))).state([])


def test_parquet_tables_are_on_a_disk_or_in_s3() -> None:
    with pytest.raises(ExportFailed, match="--format delta"):
        ParquetSink(TableFolder("mock://lake/t"))


def test_columns_without_statistics_are_nothing_to_warn_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink, state = begun(MAKERS[2], tmp_path / "t")
    commit = on_disk(tmp_path / "t", commit_of(0, 10))
    path = tmp_path / "t" / commit.files[0].path
    pq.write_table(pq.ParquetFile(path).read(), path, write_statistics=["offset"])
    sink.commit(state, commit)
    assert caplog.records == []
