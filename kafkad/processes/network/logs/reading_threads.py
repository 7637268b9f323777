"""Threads that read from disks and search in logs, so that the loop of a network process never waits for a disk.

An eventfd wakes the loop when work has completed. Searches have their own open files.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.core.log.reading.log_reader import LogReader

THREADS = 2

OnDone = Callable[["Future[Any]"], None]


class ReadingThreads:
    """A queue of work for a few threads."""

    def __init__(self, name: str) -> None:
        self._threads = HelperThreads(THREADS, name)
        self._finished: deque[tuple[Future[Any], OnDone]] = deque()
        """Threads append, the loop pops."""
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def submit(self, done: OnDone, work: Callable[..., object], *args: object) -> None:
        """Run `work(*args)` in a thread; then `done` is called in the loop with the future."""
        future = self._threads.submit(work, *args)
        future.add_done_callback(partial(self._ring, done))

    def _ring(self, done: OnDone, future: Future[Any]) -> None:
        self._finished.append((future, done))
        os.eventfd_write(self.doorbell, 1)

    def rung(self, _events: int) -> None:
        """Threads have completed some work."""
        os.eventfd_read(self.doorbell)
        while self._finished:
            future, done = self._finished.popleft()
            done(future)

    def close(self) -> None:
        self._threads.close(cancel=True)
        os.close(self.doorbell)


Result = TypeVar("Result")


class LogSearches:
    """`files` creates the file cache of one search; a `FileCache` belongs to one thread at a time."""

    def __init__(self, threads: ReadingThreads, files: Callable[[], FileCache]) -> None:
        self._threads = threads
        self._files = files

    def begin(
        self, reader: LogReader, search: Callable[[LogReader], Result], on_result: Callable[["Future[Result]"], None]
    ) -> None:
        """`search` gets an equal reader; `on_result` is called in the loop."""
        self._threads.submit(on_result, _run_search, reader, search, self._files())


def _run_search(reader: LogReader, search: Callable[[LogReader], Result], files: FileCache) -> Result:
    store = reader.store
    assert isinstance(store, SegmentFiles), "a network process reads files"
    try:
        return search(reader.with_store(SegmentFiles(store.directory, files)))
    finally:
        files.close_all()
