"""Who looks into the folder of a Parquet table on a disk finds what was committed, whenever a run was killed."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.export.coverage import Returned
from kafkad_lakehouse.export.engines.local import run_here
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.run import remove_orphans, run_export
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.sinks.parquet import ParquetSink
from kafkad_lakehouse.export.sinks.sink import Sink
from kafkad_lakehouse.export.table_folder import PendingFile, TableFolder
from kafkad_lakehouse.export.tables import open_sink
from kafkad_lakehouse.export.task import Task
from kafkad_lakehouse.export.writing import Layout, RangeWriter
from tests.lakehouse.export.from_files import from_files
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition, plain


class Killed(BaseException):
    """Where a run ends."""


class Interrupted(TableFolder):
    """No file gets its name in it: the run is killed there."""

    def rename_pending(self, pending_files: Iterable[PendingFile]) -> None:
        raise Killed


def asked_for(tmp_path: Path, end: int, **more: str) -> ExportRequest:
    if not (tmp_path / "log").exists():
        partition(tmp_path / "log", "t-0", *map(plain, range(9)))
    checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=end)
    return from_files(tmp_path, **more)


def run(asked: ExportRequest, sink: Sink | None = None) -> None:
    sink = open_sink(asked) if sink is None else sink
    run_export(prepare(asked, sink), sink, lambda tasks: run_here(tasks, 1), lambda _file: None)


def killed_behind_its_commit(asked: ExportRequest) -> None:
    with pytest.raises(Killed):
        run(asked, ParquetSink(Interrupted(asked.out)))


def seen(asked: ExportRequest) -> list[int]:
    """By who looks at the files alone."""
    found: list[int] = []
    for path in Path(asked.out).rglob("*.parquet"):
        found += pq.read_table(path, columns=["offset"]).column("offset").to_pylist()
    return sorted(found)


@pytest.mark.parametrize("partition_by", ["none", "day"])
def test_files_get_their_names_by_the_commit(tmp_path: Path, partition_by: str) -> None:
    asked = asked_for(tmp_path, 5, partition_by=partition_by)
    sink = open_sink(asked)

    def run_tasks(tasks: Sequence[Task]) -> Iterator[Returned]:
        yield from run_here(tasks, 1)
        assert seen(asked) == []

    run_export(prepare(asked, sink), sink, run_tasks, lambda _file: None)
    assert seen(asked) == list(range(5))
    assert list(Path(asked.out, "_tmp").iterdir()) == []


@pytest.mark.parametrize("is_local", [True, False])
def test_a_file_that_is_written_has_no_name_of_a_parquet_file(tmp_path: Path, *, is_local: bool) -> None:
    layout = Layout(out=str(tmp_path), topic="t", run_id="r", partition_by="day", waits=is_local)
    writer = RangeWriter(layout, OffsetRange(0, 0, 1))
    row = dict.fromkeys(RECORDS.names) | {"topic": "t", "partition": 0, "offset": 0, "timestamp": 0}
    list(writer.write(pa.RecordBatch.from_pylist([row], RECORDS)))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["0-0.unfinished"]
    writer.abandon()


def test_the_next_run_ends_what_one_has_begun_that_was_killed_behind_its_commit(tmp_path: Path) -> None:
    asked = asked_for(tmp_path, 5)
    killed_behind_its_commit(asked)
    assert seen(asked) == []
    run(asked)
    assert seen(asked) == list(range(5))
    killed_behind_its_commit(asked_for(tmp_path, 9))
    assert seen(asked) == list(range(5))
    run(asked)
    assert seen(asked) == list(range(9))


def test_who_asks_for_the_files_finds_them_in_their_places(tmp_path: Path) -> None:
    asked = asked_for(tmp_path, 5)
    killed_behind_its_commit(asked)
    (path,) = open_sink(asked).files()
    assert Path(asked.out, path).exists()


def test_maintenance_keeps_what_is_committed_and_waits(tmp_path: Path) -> None:
    asked = asked_for(tmp_path, 5)
    killed_behind_its_commit(asked)
    remove_orphans(TableFolder(asked.out), open_sink(asked), 0)
    assert seen(asked) == list(range(5))


def test_what_was_not_committed_gets_no_name(tmp_path: Path) -> None:
    asked = asked_for(tmp_path, 5)
    sink = open_sink(asked)
    abandoned = prepare(asked, sink)
    list(run_here(abandoned.tasks, 1))
    run(asked)
    assert seen(asked) == list(range(5))
    assert [each.run_id for each in TableFolder(asked.out).pending_files()] == [abandoned.run_id]
    assert len(remove_orphans(TableFolder(asked.out), open_sink(asked), 0)) == 1
    assert seen(asked) == list(range(5))
