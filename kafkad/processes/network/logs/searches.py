"""Searches in logs that may wait for a disk: threads make them, with files of their own."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.core.log.reading.log_reader import LogReader
from kafkad.processes.network.logs.reading_threads import ReadingThreads

Found = TypeVar("Found")


class LogSearches:
    """`files` makes the open files of one search; a `FileCache` belongs to one thread at a time."""

    def __init__(self, threads: ReadingThreads, files: Callable[[], FileCache]) -> None:
        self._threads = threads
        self._files = files

    def begin(
        self, reader: LogReader, look: Callable[[LogReader], Found], ended: Callable[["Future[Found]"], None]
    ) -> None:
        """`look` gets a reader like `reader`; `ended` is called in the loop."""
        self._threads.submit(ended, _look, reader, look, self._files())


def _look(reader: LogReader, look: Callable[[LogReader], Found], files: FileCache) -> Found:
    store = reader.store
    assert isinstance(store, SegmentFiles), "a network process reads files"
    try:
        return look(reader.with_store(SegmentFiles(store.directory, files)))
    finally:
        files.close_all()
