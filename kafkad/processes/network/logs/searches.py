"""Searches in logs that may wait for a disk: threads run them, with their own open files."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.core.log.reading.log_reader import LogReader
from kafkad.processes.network.logs.reading_threads import ReadingThreads

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
