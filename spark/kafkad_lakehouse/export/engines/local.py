"""Tasks in processes of this machine; a single one runs in this process."""

from collections.abc import Iterator, Sequence

from kafkad_lakehouse.export.coverage import Returned
from kafkad_lakehouse.export.task import Task, run_task


def run_here(tasks: Sequence[Task], jobs: int) -> Iterator[Returned]:
    """Run the tasks in `jobs` processes; yields their results in order of arrival."""
    if jobs > 1 and len(tasks) > 1:
        # A small run does not import multiprocessing.
        from kafkad_lakehouse.export.engines.processes import run_in_processes  # noqa: PLC0415

        yield from run_in_processes(tasks, jobs)
        return
    for task in tasks:
        yield from run_task(task)
