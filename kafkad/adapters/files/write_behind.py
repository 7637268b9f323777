"""The files of a directory, changed in order by a thread, while the caller computes the next bytes."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from typing_extensions import Buffer

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFile, SegmentFiles
from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.core.ports import StorageFailed

_LARGE = 64 * 1024
"""Smaller changes are made in the caller's thread, if no earlier change is pending."""


class WriteBehindFiles(SegmentFiles):
    """Creates, writes, removes and closes files in the order of the calls, in one thread at a time.

    After a failed change only removals are made. Callers with many changes wait for `awaited` in between.
    """

    def __init__(self, directory: Path | str, files: FileCache) -> None:
        super().__init__(directory, files)
        self._written_files = files
        self._threads = HelperThreads(1, "write")
        self._pending: deque[Future[None]] = deque()
        self._failure: StorageFailed | FileNotFoundError | None = None

    def open(self, name: str, *, create: bool = False) -> SegmentFile:
        if not create:
            return super().open(name)
        self._change(0, self._create, name)
        return _WriteBehindFile(f"{self.directory}/{name}", self._written_files, self._change)

    def _create(self, name: str) -> None:
        super().open(name, create=True)

    def set_modified_ms(self, name: str, modified_ms: int) -> None:
        self._change(0, super().set_modified_ms, name, modified_ms)

    def unlink(self, name: str) -> None:
        if self._pending:
            self._submit(super().unlink, name)
        else:
            super().unlink(name)

    def close_files(self) -> None:
        """Called without pending changes."""
        assert not self._pending, "files can't be closed before their writes are complete"
        self._written_files.close_all()

    def awaited(self, most: int = 0) -> Future[None] | None:
        """The change to wait for while more than `most` changes are pending, else None. Raises errors of changes."""
        self._drop_completed()
        return self._pending[0] if len(self._pending) > most else None

    def close(self) -> None:
        """Wait for the pending changes, and ignore their errors."""
        self._threads.close()
        self._pending.clear()
        self._written_files.close_all()

    def _drop_completed(self) -> None:
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()

    def _change(self, size: int, change: Callable[..., None], *args: object) -> None:
        self._drop_completed()
        if self._pending or size >= _LARGE:
            self._submit(self._change_unless_failed, change, *args)
        else:
            self._change_unless_failed(change, *args)

    def _submit(self, change: Callable[..., None], *args: object) -> None:
        self._pending.append(self._threads.submit(change, *args))

    def _change_unless_failed(self, change: Callable[..., None], *args: object) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            change(*args)
        except (StorageFailed, FileNotFoundError) as error:
            self._failure = error
            raise


class _WriteBehindFile(SegmentFile):
    __slots__ = ("_change",)

    def __init__(self, path: str, cache: FileCache, change: Callable[..., None]) -> None:
        super().__init__(path, cache)
        self._change = change

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        self._change(sum(memoryview(buffer).nbytes for buffer in buffers), super().write_at, buffers, position)
