"""A task writes files that no table knows yet."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkad.export.problems import ExportFailed
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.source import Source
from kafkad.export.task import Task, check_coverage, run_task
from kafkad.export.writing import Layout, WrittenFile, is_named_by_run
from tests.export.reading.test_log_directories import partition, plain


def test_two_attempts_of_a_task_at_once_do_not_touch_each_others_files(tmp_path: Path) -> None:
    log = partition(tmp_path / "log", "t-0", *map(plain, range(9)))
    task = Task(
        source=Source(topic="t", directories={0: str(log)}),
        ranges=(OffsetRange(0, 0, 5), OffsetRange(0, 5, 9)),
        layout=Layout(out=str(tmp_path / "table"), topic="t", run_id="20260101T000000-00000000"),
    )
    given_up, repeated = run_task(task.as_attempt()), run_task(task.as_attempt())
    files = [next(given_up), *repeated, *given_up]
    assert len({file.path for file in files}) == len(files) == 4
    assert all(is_named_by_run(file.path) for file in files)
    offsets = [pq.read_table(tmp_path / "table" / file.path).column("offset").to_pylist() for file in files]
    assert sorted(offsets) == [[0, 1, 2, 3, 4]] * 2 + [[5, 6, 7, 8]] * 2


def written(first: int, last: int, *, hour: str | None = None, is_dead_letters: bool = False) -> WrittenFile:
    name = f"{first}-{last}-{hour}-{is_dead_letters}"
    date = None if hour is None else "2026-01-01"
    return WrittenFile(
        name, 1, 0, first, last, 1, 1, 1, date=date, hour=hour, unparsed=0, is_dead_letters=is_dead_letters
    )


def test_two_files_with_the_same_offsets_are_not_committed() -> None:
    ranges = [OffsetRange(0, 0, 9)]
    apart = [written(5, 8), written(0, 4), written(0, 8, is_dead_letters=True)]
    check_coverage(ranges, apart)
    check_coverage(ranges, [written(0, 8, hour="01"), written(1, 7, hour="02")])
    with pytest.raises(ExportFailed, match="0-4-None-False and 4-6-None-False have the same offsets"):
        check_coverage(ranges, [*apart, written(4, 6)])
    with pytest.raises(ExportFailed, match="have the same offsets"):
        check_coverage(ranges, [written(0, 8, hour="01"), written(1, 7, hour="01")])
