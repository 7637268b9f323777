"""Tasks in several processes of this machine. None of them outlives the run."""

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from kafkad.export.coverage import Returned
from kafkad.export.problems import ExportFailed
from kafkad.export.task import Task, run_task


def run_in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[Returned]:
    """What all tasks return, as it comes. Raises `ExportFailed`."""
    # Forked from this process they would have the threads' locks of pyarrow in whatever state they are; from one that
    # has only imported it they need not import it again, which takes each half a second.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([run_task.__module__])
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=_end_with_the_run) as pool:
        running = [pool.submit(_all_of, task) for task in tasks]
        try:
            for done in as_completed(running):
                yield from done.result()
        except BrokenProcessPool as error:
            raise ExportFailed("a process of the export was killed; nothing of this run is in the table") from error
        except BaseException:
            # Told to stop: what they write is nobody's.
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_the_run() -> None:
    """Nobody wants what a process writes whose run was killed, and nobody would ever end it."""
    run = multiprocessing.parent_process()
    assert run is not None, "a process of the pool"

    def watch() -> None:
        run.join()
        os._exit(1)

    threading.Thread(target=watch, name="end with the run", daemon=True).start()


def _all_of(task: Task) -> list[Returned]:
    return list(run_task(task))
