"""A task writes files that no table knows yet."""

from pathlib import Path

import pyarrow.parquet as pq

from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.source import Source
from kafkad_lakehouse.export.task import Task, run_task
from kafkad_lakehouse.export.writing import Layout, WrittenFile, is_run_file_name
from tests.lakehouse.export.reading.test_log_directories import partition, plain


def test_two_attempts_of_a_task_at_once_do_not_touch_each_others_files(tmp_path: Path) -> None:
    log = partition(tmp_path / "log", "t-0", *map(plain, range(9)))
    task = Task(
        source=Source(topic="t", directories={0: str(log)}),
        ranges=(OffsetRange(0, 0, 5), OffsetRange(0, 5, 9)),
        layout=Layout(out=str(tmp_path / "table"), topic="t", run_id="20260101T000000-00000000"),
    )
    abandoned, repeated = run_task(task.as_attempt()), run_task(task.as_attempt())
    returned = [next(abandoned), *repeated, *abandoned]
    files = [each for each in returned if isinstance(each, WrittenFile)]
    assert len({file.path for file in files}) == len(files) == 4
    assert all(is_run_file_name(file.path) for file in files)
    offsets = [pq.read_table(tmp_path / "table" / file.path).column("offset").to_pylist() for file in files]
    assert sorted(offsets) == [[0, 1, 2, 3, 4]] * 2 + [[5, 6, 7, 8]] * 2
