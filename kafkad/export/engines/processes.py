"""Tasks in several processes of this machine. None of them outlives the run.

Pipes alone connect them: a pool of the standard library has semaphores with names in /dev/shm, which stay there when
all of a run is killed at once.
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

from kafkad.export.coverage import Returned
from kafkad.export.problems import ExportFailed
from kafkad.export.task import Task, run_task


def run_in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[Returned]:
    """What all tasks return, as it comes. Raises `ExportFailed`, and what a task raises."""
    # Forked from this process they would have the threads' locks of pyarrow in whatever state they are; from one that
    # has only imported it they need not import it again, which takes each half a second.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([run_task.__module__])
    waiting = deque(tasks)
    working: dict[Connection, BaseProcess] = {}
    try:
        while waiting and len(working) < jobs:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,))
            process.start()
            theirs.close()
            working[ours] = process
            _give(ours, waiting.popleft())
        while working:
            for end in wait(list(working)):
                assert isinstance(end, Connection), "all of them are"
                returned = _answer(end)
                if waiting:
                    _give(end, waiting.popleft())
                else:
                    end.close()
                    working.pop(end).join()
                yield from returned
    finally:
        # Told to stop, or a task has failed: what the others write is nobody's.
        for left in working.values():
            left.terminate()
            left.join()


def _give(end: Connection, task: Task) -> None:
    try:
        end.send(task)
    except BrokenPipeError:
        raise _killed() from None


def _answer(end: Connection) -> list[Returned]:
    try:
        answer: list[Returned] | Exception = end.recv()
    except (EOFError, ConnectionResetError):
        raise _killed() from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _killed() -> ExportFailed:
    return ExportFailed("a process of the export was killed; nothing of this run is in the table")


def _work(end: Connection) -> None:
    """Ctrl-C goes to the whole process group: the run ends its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_the_run()
    while True:
        try:
            task = end.recv()
        except EOFError:
            return
        try:
            answer: list[Returned] | Exception = list(run_task(task))
        except Exception as error:  # noqa: BLE001  the run's, as with any future
            error.add_note(traceback.format_exc())
            answer = error
        end.send(answer)


def _end_with_the_run() -> None:
    """Nobody wants what a process writes whose run was killed, and nobody would ever end it."""
    run = multiprocessing.parent_process()
    assert run is not None, "a process of the run"

    def watch() -> None:
        run.join()
        os._exit(1)

    threading.Thread(target=watch, name="end with the run", daemon=True).start()
