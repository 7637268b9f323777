"""Tables in an object store: moto's S3 on loopback."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed, UnsupportedStore
from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.run import remove_orphans, run_export
from kafkad_lakehouse.export.sinks.parquet import ParquetSink
from kafkad_lakehouse.export.sinks.sink import Merging, Sink
from kafkad_lakehouse.export.table_folder import TableFolder, unfinished_path
from kafkad_lakehouse.export.tables import open_sink
from kafkad_lakehouse.export.task import run_task
from tests.lakehouse.export.object_store import forgetful, object_store, settings
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition, plain
from tests.lakehouse.export.sinks.test_sinks import commit_of

OUT = "s3a://lake/orders"
SINKS = pytest.mark.parametrize("kind", ["parquet", "delta"])


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of a store that this process uses."""
    with object_store() as port:
        _use(port, monkeypatch)
        yield port


def _sink(kind: str) -> Sink:
    return open_sink(ExportRequest(topic="t", out=OUT, name="t", bootstrap="", format=kind))


def _use(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings(port).items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
@pytest.mark.usefixtures("port")
def test_two_runs_bring_each_record_once(kind: str, tmp_path: Path) -> None:
    partition(tmp_path / "log", "t-0", *map(plain, range(9)))
    wanted = ExportRequest(
        topic="t",
        out=OUT,
        name="t",
        bootstrap="",
        source="files",
        log_dirs=(str(tmp_path / "log"),),
        format=kind,
        catalog=f"sqlite:///{tmp_path}/catalog.db",
    )
    for end in (4, 9):
        checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=end)
        sink = open_sink(wanted)
        prepared = prepare(wanted, sink)
        run_export(prepared, sink, lambda tasks: (file for task in tasks for file in run_task(task)), lambda _: None)
        assert open_sink(wanted).state([0]).offsets == {0: end}
    folder = TableFolder(OUT)
    tables = [pq.read_table(pa.BufferReader(folder.read(path))) for path in open_sink(wanted).files()]
    assert sorted(pa.concat_tables(tables).column("offset").to_pylist()) == list(range(9))
    name = f"t-0-{0:020d}-{9:020d}-20260101T000000-00000000"
    unfinished = unfinished_path("20260101T000000-00000000", "0-0.parquet")
    orphans = [unfinished, f"date=2026-01-01/{name}.parquet", f"{name}-12345678.parquet"]
    for path in (*orphans, "data/00000-0-deletes.parquet"):
        with folder.create(path) as file:
            file.write(b"left over")
    assert remove_orphans(folder, open_sink(wanted), 0) == orphans
    assert folder.names("data") == ["data/00000-0-deletes.parquet"]
    assert open_sink(wanted).merge_small(Merging(1 << 20, "zstd")) == (2, 1)
    files = open_sink(wanted).files()
    assert open_sink(wanted).shorten_log(0) == (2 if kind == "parquet" else 0)
    assert open_sink(wanted).state([0]).offsets == {0: 9} and open_sink(wanted).files() == files


@pytest.mark.usefixtures("port")
def test_files_without_a_log_are_those_of_a_killed_run_where_one_has_asked_what_the_store_can_do() -> None:
    folder = TableFolder(OUT)
    with folder.create(f"t-0-{0:020d}-{4:020d}-20260101T000000-00000000.parquet") as file:
        file.write(b"of a run")
    with pytest.raises(ExportFailed, match="--rebuild-log"):
        ParquetSink(folder).state([0])
    ParquetSink(folder).check_store()
    assert ParquetSink(folder).state([0]).topic_id is None


@pytest.mark.parametrize("commits_before", [0, 1])
@pytest.mark.usefixtures("port")
def test_of_two_exports_that_race_one_commits(commits_before: int) -> None:
    for number in range(commits_before):
        sink = ParquetSink(TableFolder(OUT))
        sink.commit(sink.state([0]), commit_of(number * 10, number * 10 + 10))
    start = commits_before * 10
    one, other = ParquetSink(TableFolder(OUT)), ParquetSink(TableFolder(OUT))
    seen_by_one, seen_by_other = one.state([0]), other.state([0])
    one.commit(seen_by_one, commit_of(start, start + 5))
    with pytest.raises(CommitConflict):
        other.commit(seen_by_other, commit_of(start, start + 7))
    assert ParquetSink(TableFolder(OUT)).state([0]).offsets == {0: start + 5}


@pytest.mark.usefixtures("port")
def test_a_request_that_is_repeated_as_its_answer_got_lost_has_created_the_object() -> None:
    folder = TableFolder(OUT)
    assert folder.publish("log/0", b"ours") and folder.publish("log/0", b"ours")
    assert not folder.publish("log/0", b"theirs")
    assert folder.read("log/0") == b"ours"


@SINKS
@pytest.mark.usefixtures("port")
def test_a_store_is_asked_whether_it_creates_only(kind: str) -> None:
    sink = _sink(kind)
    sink.check_store()
    sink.check_store()
    assert sink.state([0]).topic_id is None


@SINKS
def test_a_store_that_writes_over_what_is_there_is_refused(
    kind: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path / "log", "t-0", *map(plain, range(9)))
    checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=9)
    with forgetful(port) as unfit:
        _use(unfit, monkeypatch)
        with pytest.raises(UnsupportedStore):
            _sink(kind).check_store()
        command = [sys.executable, "-m", "kafkad", "export", "run", "--topic", "t", "--out", OUT, "--source", "files"]
        command += ["--log-dirs", str(tmp_path / "log"), "--bootstrap-server", "none", "--format", kind]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "this store ignores If-None-Match" in done.stderr
        assert TableFolder(OUT).names(recursive=True) == ["_kafkad_log/.create-only"]


def test_a_delta_table_whose_commits_dynamodb_decides_needs_no_such_store(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    with forgetful(port) as unfit:
        _use(unfit, monkeypatch)
        _sink("delta").check_store()
        assert TableFolder(OUT).names(recursive=True) == []


def test_a_store_that_does_not_answer_or_refuses_us_is_named(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExportFailed, match="s3://sea/orders can't be written") as refused:
        TableFolder("s3://sea/orders").publish("log/0", b"x")
    assert "\n" not in str(refused.value)
    _use(1, monkeypatch)
    with pytest.raises(ExportFailed, match="can't be read"):
        TableFolder(OUT).names()
    with pytest.raises(ExportFailed, match="can't be written"):
        TableFolder(OUT).publish("log/0", b"x")


@pytest.mark.parametrize("out", ["s3://lake/orders?region=eu-west-1", "s3://me:secret@lake/orders"])
@pytest.mark.usefixtures("port")
def test_settings_of_a_store_are_not_in_its_address(out: str) -> None:
    with pytest.raises(ExportFailed, match="s3://BUCKET/PATH"):
        ParquetSink(TableFolder(out)).check_store()
