"""What a run would do."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.run import run_export
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.tables import open_sink
from kafkad_lakehouse.export.task import run_task
from tests.lakehouse.export.from_files import from_files
from tests.lakehouse.export.reading.test_log_directories import ID, checkpoint, partition, plain


@pytest.mark.parametrize(("start", "begun"), [("earliest", 5), ("latest", 9)])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_table_whose_first_commit_was_not_reached_begins_as_a_new_one(
    tmp_path: Path, start: str, begun: int, *, is_there: bool
) -> None:
    partition(tmp_path / "log", "t-0", *map(plain, range(5, 9)), base=5)
    checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=9)
    out = tmp_path / "table"
    if is_there:
        identity = json.dumps({"cluster_id": "c", "topic_id": str(ID), "topic": "t"})
        DeltaTable.create(str(out), RECORDS, configuration={"kafkad.export": identity}, raise_if_key_not_exists=False)
    asked = from_files(tmp_path, format="delta", start=start)
    assert prepare(asked, open_sink(asked)).plan.ranges == (OffsetRange(0, begun, 9),)


def test_a_table_of_another_topic_is_refused(tmp_path: Path) -> None:
    for topic in ("t", "u"):
        partition(tmp_path / "log", f"{topic}-0", *map(plain, range(4)))
    checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=4)
    asked = from_files(tmp_path)
    sink = open_sink(asked)
    run_export(prepare(asked, sink), sink, lambda tasks: [file for task in tasks for file in run_task(task)], print)
    other = replace(asked, topic="u")
    with pytest.raises(ExportFailed, match="the table is of topic 't', not 'u': use another folder"):
        prepare(other, open_sink(other))


@pytest.mark.parametrize("table", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("name", ["a%20b", "a#b", "a?b", "a b"])
def test_the_folder_of_a_table_may_have_any_name_or_is_refused(tmp_path: Path, table: str, name: str) -> None:
    partition(tmp_path / "log", "t-0", *map(plain, range(4)))
    checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=4)
    asked = from_files(tmp_path, format=table, out=str(tmp_path / name))
    if table == "delta" and "%" in name:
        with pytest.raises(ExportFailed, match="a Delta table can't be in a folder with % in its name"):
            open_sink(asked)
        return
    for _ in range(2):
        sink = open_sink(asked)
        run_export(prepare(asked, sink), sink, lambda tasks: [file for task in tasks for file in run_task(task)], print)
    assert len(open_sink(asked).files()) == 1 and open_sink(asked).kept(0) == set(open_sink(asked).files())
    assert [each.name for each in tmp_path.iterdir() if each.name != "log"] == [name]


def test_tasks_find_the_table_and_the_log_from_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of Spark have, on the same machine too."""
    partition(tmp_path / "log", "t-0", *map(plain, range(4)))
    checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=4)
    monkeypatch.chdir(tmp_path)
    asked = from_files(tmp_path, out="table", log_dirs=("log",))
    (task,) = prepare(asked, open_sink(asked)).tasks
    assert task.layout.out == str(tmp_path / "table")
    assert task.source.directories == {0: str(tmp_path / "log" / "t-0")}


def test_an_address_with_more_than_a_place_is_refused() -> None:
    for out in (
        "s3://lake/a%20b",
        "s3://lake/a?region=x",
        "gs://lake/a#b",
        "s3://",
        "s3a:///t",
        "s3://me:secret@lake/t",
    ):
        with pytest.raises(ExportFailed, match="without %, \\? and #") as refused:
            TableFolder(out)
        assert "secret" not in str(refused.value)


def test_a_catalog_whose_driver_is_not_installed_is_one_line(tmp_path: Path) -> None:
    asked = from_files(tmp_path, format="iceberg", catalog="mysql://me:secret@catalog/lake")
    with pytest.raises(ExportFailed, match=r"can't be read from its catalog: .* not installed"):
        open_sink(asked).state([])
