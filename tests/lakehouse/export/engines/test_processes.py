"""Tasks in processes of their own, which leave nothing behind however they end."""

import os
import signal
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path

import pytest

from kafkad_lakehouse.export.coverage import Manifest
from kafkad_lakehouse.export.engines.processes import run_in_processes
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.source import Source
from kafkad_lakehouse.export.task import Task
from kafkad_lakehouse.export.writing import Layout, WrittenFile
from tests.lakehouse.export.reading.test_log_directories import partition, plain


@pytest.fixture
def tasks(tmp_path: Path) -> list[Task]:
    """Three, of three offsets each."""
    log = partition(tmp_path / "log", "t-0", *map(plain, range(9)))
    return [
        Task(
            source=Source(topic="t", directories={0: str(log)}),
            ranges=(OffsetRange(0, start, start + 3),),
            layout=Layout(out=str(tmp_path / "table"), topic="t", run_id=f"20260101T000000-0000000{start}"),
        )
        for start in (0, 3, 6)
    ]


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert active_children() == []


def named_semaphores() -> set[str]:
    """Those that this process has open: a killed run leaves them in /dev/shm for ever."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if "/sem." in line}


def test_all_tasks_are_done_by_fewer_processes(tasks: list[Task]) -> None:
    before = named_semaphores()
    returned = []
    for each in run_in_processes(tasks, 2):
        returned.append(each)
        assert named_semaphores() == before
    files = [each for each in returned if isinstance(each, WrittenFile)]
    assert sorted(file.rows for file in files) == [3, 3, 3]
    assert sum(isinstance(each, Manifest) for each in returned) == 3


def test_what_a_task_raises_ends_the_run_with_the_place_where_it_was_raised(tasks: list[Task], tmp_path: Path) -> None:
    (tmp_path / "table").write_text("a file where the folder should be")
    with pytest.raises(ExportFailed, match="can't be written") as raised:
        list(run_in_processes(tasks, 2))
    assert "run_task" in "".join(raised.value.__notes__)


def test_a_process_that_is_killed_ends_the_run(tasks: list[Task]) -> None:
    returned = run_in_processes([task.as_attempt() for task in tasks * 20], 2)
    next(returned)
    for process in active_children():
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(ExportFailed, match="a process of the export was killed"):
        list(returned)


def test_who_wants_no_more_leaves_no_process(tasks: list[Task]) -> None:
    returned = run_in_processes([task.as_attempt() for task in tasks * 20], 2)
    next(returned)
    returned.close()  # type: ignore[attr-defined]
