"""Tasks in several processes of this machine. No process outlives the run.

The processes communicate through pipes only: a pool of the standard library has named semaphores in /dev/shm, which
remain there after a SIGKILL of the whole run.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from kafkad_lakehouse.export.coverage import Returned
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.task import Task, run_task


def run_in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[Returned]:
    """Yield the results of all tasks in order of arrival. Raises `ExportFailed`, and exceptions of tasks."""
    # A fork of this process would copy locks of pyarrow's threads in an unknown state. The fork server has imported
    # pyarrow, which saves each process half a second.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([run_task.__module__])
    pending = deque(tasks)
    workers: dict[Connection, BaseProcess] = {}
    try:
        while pending and len(workers) < jobs:
            ours, theirs = context.Pipe()
            process = context.Process(target=_run_worker, args=(theirs,))
            process.start()
            theirs.close()
            workers[ours] = process
            _send(ours, pending.popleft())
        while workers:
            for end in wait(list(workers)):
                assert isinstance(end, Connection), "`workers` has only connections"
                returned = _receive(end)
                if pending:
                    _send(end, pending.popleft())
                else:
                    end.close()
                    workers.pop(end).join()
                yield from returned
    finally:
        # The run was stopped or a task failed: discard the work of the other tasks.
        for left in workers.values():
            left.terminate()
            left.join()


def _send(end: Connection, task: Task) -> None:
    try:
        end.send(task)
    except BrokenPipeError:
        raise _killed() from None


def _receive(end: Connection) -> list[Returned]:
    try:
        result: list[Returned] | Exception = end.recv()
    except (EOFError, ConnectionResetError):
        raise _killed() from None
    if isinstance(result, Exception):
        raise result
    return result


def _killed() -> ExportFailed:
    return ExportFailed("a process of the export was killed; this run committed nothing")


def _run_worker(end: Connection) -> None:
    """Ignore SIGINT, which a terminal sends to the whole process group: the run terminates its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_the_run()
    while True:
        try:
            task = end.recv()
        except EOFError:
            return
        try:
            result: list[Returned] | Exception = list(run_task(task))
        except Exception as error:  # noqa: BLE001  the run raises it, as with a future
            error.add_note(traceback.format_exc())
            result = error
        end.send(result)


def _end_with_the_run() -> None:
    """Exit when the process of the run is killed: no other process would terminate this one."""
    run = multiprocessing.parent_process()
    assert run is not None, "a process of the run"

    def watch() -> None:
        run.join()
        os._exit(1)

    threading.Thread(target=watch, name="end with the run", daemon=True).start()
