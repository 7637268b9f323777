"""Small files of a table become larger ones with the same rows, whatever happens to the table meanwhile."""

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table import Table

from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import KEEP_LATEST
from kafkad_lakehouse.export.run import orphans, remove_orphans
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.sinks import delta
from kafkad_lakehouse.export.sinks.delta import DeltaSink
from kafkad_lakehouse.export.sinks.iceberg import IcebergSink
from kafkad_lakehouse.export.sinks.parquet import ParquetSink
from kafkad_lakehouse.export.sinks.rebasing import commit_with_rebase
from kafkad_lakehouse.export.sinks.sink import Commit, Merging, Sink
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.writing import END_US
from tests.lakehouse.export.sinks.test_sinks import MAKERS, SINKS, MakeSink, begun, commit_of, on_disk, with_columns
from tests.lakehouse.export.test_latest import batch_of

MERGING = Merging(256 << 20, "zstd")
DELTA = MAKERS[1]


class Interrupted(TableFolder):
    """A folder in which somebody else is quicker: they act when the first file is read."""

    def __init__(self, out: str, others: Callable[[], object]) -> None:
        super().__init__(out)
        self._others: list[Callable[[], object]] = [others]

    def read(self, path: str) -> bytes:
        content = super().read(path)
        if path.endswith(".parquet") and self._others:
            self._others.pop()()
        return content


def interrupted(make: MakeSink, path: Path, others: Callable[[], object]) -> Sink:
    folder = Interrupted(str(path), others)
    sinks: dict[type, Callable[[], Sink]] = {
        ParquetSink: lambda: ParquetSink(folder),
        DeltaSink: lambda: DeltaSink(folder, "none"),
        IcebergSink: lambda: IcebergSink(folder, "none", "", "kafkad.t"),
    }
    return sinks[type(make(path))]()


def offsets_of(make: MakeSink, path: Path) -> list[int]:
    found = [pq.ParquetFile(path / name).read(["offset"]).column(0).to_pylist() for name in make(path).files()]
    return sorted(offset for each in found for offset in each)


def with_commits(make: MakeSink, path: Path, numbers: Iterable[int]) -> None:
    for number in numbers:
        sink, state = begun(make, path)
        sink.commit(state, named_by_a_run(path, commit_of(number, number + 1)))


def named_by_a_run(path: Path, commit: Commit) -> Commit:
    (file,) = commit.files
    place = f"{file.partition}-{file.first_offset:020d}-{file.last_offset:020d}"
    name = f"t-{place}-20261123T085929-a807edfe.parquet"
    path.mkdir(exist_ok=True)
    on_disk(path, commit._replace(files=[file._replace(path=name)]))
    return commit._replace(files=[file._replace(path=name, size=(path / name).stat().st_size)])


def iceberg(path: Path) -> Table:
    return load_catalog("kafkad", type="sql", uri=f"sqlite:///{path}/_catalog.db").load_table("kafkad.t")


@SINKS
def test_small_files_are_merged_and_the_table_goes_as_far_as_before(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert make(path).merge_small(MERGING) == (0, 0)
    with_commits(make, path, range(4))
    before = begun(make, path)[1]
    replaced = set(make(path).files())
    assert make(path).merge_small(MERGING._replace(is_dry_run=True)) == (4, 1)
    assert begun(make, path)[1] == before and set(make(path).files()) == replaced
    assert make(path).merge_small(MERGING) == (4, 1)
    sink, state = begun(make, path)
    assert state.version != before.version and state == before._replace(version=state.version)
    assert offsets_of(make, path) == [0, 1, 2, 3]
    assert sink.merge_small(MERGING) == (0, 0)
    folder = TableFolder(str(path))
    assert remove_orphans(folder, make(path), 60) == []
    assert set(orphans(folder, make(path), 0)) == set(remove_orphans(folder, make(path), 0)) == replaced
    with_commits(make, path, [4])
    assert offsets_of(make, path) == [0, 1, 2, 3, 4]
    assert begun(make, path)[1].offsets == {0: 5}


def test_a_merged_file_of_a_delta_table_has_the_statistics_of_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(DELTA, path, range(4))
    DELTA(path).merge_small(MERGING)
    (row,) = pa.table(DeltaTable(str(path)).get_add_actions(flatten=True)).to_pylist()
    assert (row["min.offset"], row["max.offset"], row["num_records"]) == (0, 3, 4)
    assert "min.value" not in row


def test_streams_of_an_iceberg_table_pass_over_a_merge_and_its_older_snapshots_stay(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(MAKERS[2], path, range(3))
    before = iceberg(path)
    MAKERS[2](path).merge_small(MERGING)
    table = iceberg(path)
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert (snapshot.summary.operation.value, snapshot.summary["total-records"]) == ("replace", "3")
    assert table.properties == before.properties
    assert table.scan().to_arrow().column("offset").to_pylist() == [0, 1, 2]
    (old,) = [each.snapshot_id for each in before.snapshots() if each == before.current_snapshot()]
    assert sorted(table.scan(snapshot_id=old).to_arrow().column("offset").to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("make", MAKERS[1:], ids=["delta", "iceberg"])
def test_what_others_replace_while_orphans_are_looked_for_is_none(
    make: MakeSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are old, and readers may have just begun with them."""
    path = tmp_path / "t"
    with_commits(make, path, range(2))
    files = set(make(path).files())
    others: list[Callable[[], object]] = [lambda: make(path).merge_small(MERGING)]

    load = SqlCatalog.load_table

    def load_table(catalog: SqlCatalog, name: str) -> Table:
        table = load(catalog, name)
        if others:
            others.pop()()
        return table

    class InterruptedTable(DeltaTable):
        def __init__(self, out: str) -> None:
            super().__init__(out)
            if others:
                others.pop()()

    monkeypatch.setattr(SqlCatalog, "load_table", load_table)
    monkeypatch.setattr(delta, "DeltaTable", InterruptedTable)
    assert files <= (make(path).kept(7_200) or set())
    assert not others


def test_the_manifests_of_an_iceberg_table_are_read_once_for_its_orphans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    with_commits(MAKERS[2], path, range(2))
    replaced = MAKERS[2](path).files()
    MAKERS[2](path).merge_small(MERGING)
    with_commits(MAKERS[2], path, [2])
    files = MAKERS[2](path).files()
    read: list[str] = []
    fetch = ManifestFile.fetch_manifest_entry

    def fetched(manifest: ManifestFile, *args: Any, **kwargs: Any) -> list[ManifestEntry]:
        read.append(manifest.manifest_path)
        return fetch(manifest, *args, **kwargs)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", fetched)
    assert MAKERS[2](path).kept(60) == {*files, *replaced}
    assert len(set(read)) == len(read) > 0
    assert MAKERS[2](path).kept(0) == set(files)


@SINKS
def test_files_of_before_the_table_got_columns_are_merged_with_those_of_now(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(make, path, [0])
    fields = [("a", pa.int64()), ("b", pa.string())]
    for number in (1, 2):
        sink, state = begun(make, path)
        sink.commit(state, named_by_a_run(path, with_columns(commit_of(number, number + 1), *fields[:number])))
    assert make(path).merge_small(MERGING) == (3, 1)
    (name,) = make(path).files()
    rows = pq.ParquetFile(path / name).read()
    assert rows.column("offset").to_pylist() == [0, 1, 2]
    assert [field.name for field in rows.schema.field("value_parsed").type] == ["a", "b"]


@SINKS
def test_a_run_that_commits_while_files_are_merged_is_in_the_table(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(make, path, range(2))
    running = begun(make, path)
    merging = interrupted(make, path, lambda: with_commits(make, path, [2]))
    assert merging.merge_small(MERGING) == (2, 1)
    with pytest.raises(CommitConflict):
        running[0].commit(running[1], named_by_a_run(path, commit_of(2, 3)))
    assert make(path).merge_small(MERGING) == (2, 1)
    with_commits(make, path, [3])
    assert offsets_of(make, path) == [0, 1, 2, 3]
    assert begun(make, path)[1].offsets == {0: 4}


def by_its_library(path: Path) -> None:
    DeltaTable(str(path)).optimize.compact()


def by_another_engine(path: Path) -> None:
    table = iceberg(path)
    table.overwrite(table.scan().to_arrow())


@pytest.mark.parametrize(
    ("make", "by_another"),
    [
        *((make, lambda path, make=make: make(path).merge_small(MERGING)) for make in MAKERS),
        (DELTA, by_its_library),
        (MAKERS[2], by_another_engine),
    ],
)
def test_of_two_merges_of_files_that_race_one_commits(
    tmp_path: Path, make: MakeSink, by_another: Callable[[Path], object]
) -> None:
    path = tmp_path / "t"
    with_commits(make, path, range(3))
    there: set[Path] = set()

    def others() -> None:
        by_another(path)
        there.update(path.rglob("*.parquet"))

    with pytest.raises(CommitConflict, match="has replaced files of the table concurrently"):
        interrupted(make, path, others).merge_small(MERGING)
    assert set(path.rglob("*.parquet")) == there
    assert len(make(path).files()) == 1
    if by_another is not by_another_engine:
        assert offsets_of(make, path) == [0, 1, 2]


@SINKS
def test_a_run_that_began_before_its_table_was_merged_commits_behind(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(make, path, range(2))
    sink, seen = begun(make, path)
    assert make(path).merge_small(MERGING) == (2, 1)
    commit_with_rebase(sink, seen, named_by_a_run(path, commit_of(2, 3)), [0])
    assert offsets_of(make, path) == [0, 1, 2]
    assert begun(make, path)[1].offsets == {0: 3}


def latest(path: Path, start: int, *keys: bytes) -> Commit:
    """A record for each key, each in a file of its own."""
    commits = [named_by_a_run(path, commit_of(start + at, start + at + 1)) for at in range(len(keys))]
    files = []
    for at, (key, commit) in enumerate(zip(keys, commits, strict=True)):
        (file,) = commit.files
        pq.write_table(pa.Table.from_batches([batch_of([(key, b"v")], start + at)]), path / file.path)
        files.append(file._replace(size=(path / file.path).stat().st_size))
    ranges = [OffsetRange(0, start, start + len(keys))]
    return commits[0]._replace(files=files, ranges=ranges, keeps=KEEP_LATEST, run_id="20261123T085929-00000000")


@SINKS
def test_a_table_of_the_latest_of_each_key_is_merged_and_goes_on(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink, state = begun(make, path)
    sink.commit(state, latest(path, 0, b"a", b"b", b"c"))
    running = begun(make, path)
    assert make(path).merge_small(MERGING) == (3, 1)
    assert offsets_of(make, path) == [0, 1, 2]
    commit_with_rebase(*running, latest(path, 3, b"b"), [0])
    assert offsets_of(make, path) == [0, 2, 3]
    assert begun(make, path)[1].offsets == {0: 4}


@pytest.mark.parametrize(("make", "synced"), [(MAKERS[0], "_kafkad_log"), (DELTA, "_delta_log")])
def test_a_merge_that_does_not_know_whether_it_committed_deletes_nothing(
    make: MakeSink, synced: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    with_commits(make, path, range(3))
    sync = os.fsync

    def failing(descriptor: int) -> None:
        sync(descriptor)
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(synced):
            raise OSError(errno.EIO, "of the disk")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(ExportFailed, match="of the disk"):
        make(path).merge_small(MERGING)
    monkeypatch.undo()
    assert offsets_of(make, path) == [0, 1, 2]
    assert len(make(path).files()) == 1, "it did commit"


@pytest.mark.parametrize("reads", [2, 5])
def test_a_merge_that_fails_behind_a_file_that_is_complete_leaves_none(reads: int, tmp_path: Path) -> None:
    """Behind other times a record that is no date begins a file, and then all of them are written once more."""
    path = tmp_path / "t"
    with_commits(MAKERS[0], path, range(3))
    _, second, _ = sorted(path.glob("*.parquet"))
    rows = pq.read_table(second)
    no_date = pa.array([END_US], pa.int64()).cast(RECORDS.field("timestamp").type)
    pq.write_table(rows.set_column(rows.schema.get_field_index("timestamp"), "timestamp", no_date), second)

    class Failing(TableFolder):
        read_files = 0

        def read(self, path: str) -> bytes:
            self.read_files += path.endswith(".parquet")
            if self.read_files > reads:
                raise OSError(errno.EIO, "of the disk")
            return super().read(path)

    there = set(path.rglob("*.parquet"))
    with pytest.raises(ExportFailed, match="of the disk"):
        ParquetSink(Failing(str(path))).merge_small(MERGING)
    assert set(path.rglob("*.parquet")) == there
    assert MAKERS[0](path).merge_small(MERGING) == (3, 1)
    assert offsets_of(MAKERS[0], path) == [0, 1, 2]


@SINKS
def test_the_files_of_a_table_within_the_folder_are_no_orphans(make: MakeSink, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for each in (path, path / "within"):
        with_commits(make, each, range(2))
    assert remove_orphans(TableFolder(str(path)), make(path), 0) == []
    assert offsets_of(make, path) == offsets_of(make, path / "within") == [0, 1]


class Merged(TableFolder):
    """A folder whose small files somebody else merges just before it is listed."""

    def __init__(self, make: MakeSink, path: Path) -> None:
        super().__init__(str(path))
        self._others = [make(path)]

    def names(self, path: str = "", *, recursive: bool = False) -> list[str]:
        if self._others:
            assert self._others.pop().merge_small(MERGING) == (3, 1)
        return super().names(path, recursive=recursive)


@SINKS
def test_a_file_that_has_come_into_the_table_just_before_the_folder_is_listed_is_no_orphan(
    make: MakeSink, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    with_commits(make, path, range(3))
    replaced = set(make(path).files())
    assert set(remove_orphans(Merged(make, path), make(path), 0)) == replaced
    assert offsets_of(make, path) == [0, 1, 2]


class WithClosedFolder(TableFolder):
    """Something within it may not be read, as in the root of a file system."""

    def names(self, path: str = "", *, recursive: bool = False) -> list[str]:
        if recursive and not path:
            raise ExportFailed(f"{self.out}/lost+found can't be read: Permission denied")
        return super().names(path, recursive=recursive)


def test_orphans_are_looked_for_only_where_runs_write(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(MAKERS[0], path, range(2))
    (path / "_tmp" / "run").mkdir(parents=True)
    (path / "_tmp" / "run" / "0-0.parquet").write_text("")
    assert remove_orphans(WithClosedFolder(str(path)), MAKERS[0](path), 0) == ["_tmp/run/0-0.parquet"]


@SINKS
def test_where_no_table_is_seen_no_file_is_an_orphan(make: MakeSink, tmp_path: Path) -> None:
    for other in MAKERS:
        path = tmp_path / str(MAKERS.index(other))
        with_commits(other, path, range(2))
        if other is not make:
            assert remove_orphans(TableFolder(str(path)), make(path), 0) == []
            assert offsets_of(other, path) == [0, 1]
