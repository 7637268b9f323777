"""The thread of the controller process that waits for the coordination store, so that the loop never does.

Work is done in order; callbacks with the results run in the loop. The thread ends with the process.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from kafkad.adapters.links.event_queue import EventQueue
from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.processes.runtime.event_loop import EventLoop

Result = TypeVar("Result")


class StoreThread:
    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._threads = HelperThreads(1, "store")
        self._done: EventQueue[Callable[[], None]] = EventQueue()
        loop.watch(self._done.fileno(), self._run_callbacks)

    def submit(self, work: Callable[[], Result], done: Callable[["Future[Result]"], None]) -> None:
        """`done` gets the finished future in a later pass of the loop."""
        future = self._threads.submit(work)
        future.add_done_callback(lambda finished: self._done.put(partial(done, finished)))

    def _run_callbacks(self, _events: int) -> None:
        for callback in self._done.drain():
            callback()

    def close(self) -> None:
        """Wait for the work in progress, which is aborted when the session is suspended."""
        self._threads.close(cancel=True)
        self._loop.unwatch(self._done.fileno())
        self._done.close()
