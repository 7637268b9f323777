"""Threads that may wait for a disk, so that the loop of a network process never does.

An eventfd wakes the loop when they have finished work.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from kafkad.adapters.operating_system.helper_threads import HelperThreads

THREADS = 2

Done = Callable[["Future[Any]"], None]


class ReadingThreads:
    """Work for a few threads, in the order in which it came."""

    def __init__(self, name: str) -> None:
        self._threads = HelperThreads(THREADS, name)
        self._finished: deque[tuple[Future[Any], Done]] = deque()
        """Threads add to it, the loop takes from it."""
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def submit(self, done: Done, work: Callable[..., object], *args: object) -> None:
        """Run `work(*args)` in a thread; then `done` is called in the loop with the outcome."""
        future = self._threads.submit(work, *args)
        future.add_done_callback(partial(self._ring, done))

    def _ring(self, done: Done, future: Future[Any]) -> None:
        self._finished.append((future, done))
        os.eventfd_write(self.doorbell, 1)

    def rung(self, _events: int) -> None:
        """Threads have finished some work."""
        os.eventfd_read(self.doorbell)
        while self._finished:
            future, done = self._finished.popleft()
            done(future)

    def close(self) -> None:
        self._threads.close(cancel=True)
        os.close(self.doorbell)
