"""The engines that run the tasks of `kafkad export run`."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.run import RunTasks


class Engine(NamedTuple):
    """`jobs`: the number of concurrent tasks."""

    jobs: int
    run_tasks_of: Callable[[ExportRequest], RunTasks]


@contextmanager
def open_engine(engine: str, tables: Sequence[ExportRequest], jobs: int | None) -> Iterator[Engine]:
    """Open an engine. Without `jobs`, Spark uses its default parallelism, and the local engine one process."""
    if engine == "local":
        # The local engine does not import Spark, and the other way round.
        from kafkad_lakehouse.export.engines.local import run_here  # noqa: PLC0415

        at_once = jobs or 1
        yield Engine(at_once, lambda _request: lambda tasks: run_here(tasks, at_once))
        return
    # The workers must use this Python, which has pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from kafkad_lakehouse.export.engines.spark import open_session, run_in_spark  # noqa: PLC0415

    with open_session(f"kafkad export {tables[0].topic if len(tables) == 1 else f'{len(tables)} topics'}") as session:

        def run_tasks_of(request: ExportRequest) -> RunTasks:
            return lambda tasks: run_in_spark(session, tasks, f"kafkad export: {request.topic} to {request.out}")

        yield Engine(jobs or session.sparkContext.defaultParallelism, run_tasks_of)
