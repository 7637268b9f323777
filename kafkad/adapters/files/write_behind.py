"""The files of a directory, changed by a thread in order, while whoever made the bytes makes the next ones."""

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
"""A change of fewer bytes is made at once, if nothing is before it."""


class WriteBehindFiles(SegmentFiles):
    """What is created, written, removed and closed here is so in this order, and by one thread at a time.

    After a change that fails none is made but removals. Whoever changes a lot asks `awaited` between his changes.
    """

    def __init__(self, directory: Path | str, files: FileCache) -> None:
        super().__init__(directory, files)
        self._written_files = files
        self._threads = HelperThreads(1, "write")
        self._unfinished: deque[Future[None]] = deque()
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
        if self._unfinished:
            self._submit(super().unlink, name)
        else:
            super().unlink(name)

    def close_files(self) -> None:
        """When nothing is unfinished."""
        assert not self._unfinished, "a file is closed once it is written"
        self._written_files.close_all()

    def awaited(self, most: int = 0) -> Future[None] | None:
        """What to wait for until no more than `most` changes are unfinished, None when there are no more.

        Raises what a change has raised.
        """
        self._forget_finished()
        return self._unfinished[0] if len(self._unfinished) > most else None

    def close(self) -> None:
        """Waits for what is unfinished, whatever it raises."""
        self._threads.close()
        self._unfinished.clear()
        self._written_files.close_all()

    def _forget_finished(self) -> None:
        while self._unfinished and self._unfinished[0].done():
            self._unfinished.popleft().result()

    def _change(self, size: int, change: Callable[..., None], *args: object) -> None:
        self._forget_finished()
        if self._unfinished or size >= _LARGE:
            self._submit(self._unless_failed, change, *args)
        else:
            self._unless_failed(change, *args)

    def _submit(self, change: Callable[..., None], *args: object) -> None:
        self._unfinished.append(self._threads.submit(change, *args))

    def _unless_failed(self, change: Callable[..., None], *args: object) -> None:
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
