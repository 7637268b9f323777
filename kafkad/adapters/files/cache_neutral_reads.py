"""Reads whole files without pushing what clients read out of the page cache.

What was in memory before a read stays there, what was not is dropped again. The kernel reads nothing ahead here, so
that a page which is in memory is there because of somebody else.
"""

import mmap
import os
from contextlib import suppress

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFile, SegmentFiles
from kafkad.adapters.files.storage_errors import storage_errors

_PAGE = mmap.PAGESIZE


class CacheNeutralFiles(SegmentFiles):
    """The files of a directory that are read from their beginning to their end, in large pieces."""

    def __init__(self, directory: str, files: FileCache) -> None:
        super().__init__(directory, files)
        self._read_files = files
        self._read_bytes = self._cold_bytes = 0

    def open(self, name: str, *, create: bool = False) -> SegmentFile:
        assert not create, "these files are read only"
        return _CacheNeutralFile(f"{self.directory}/{name}", self._read_files, self)

    def count(self, read_bytes: int, cold_bytes: int) -> None:
        self._read_bytes += read_bytes
        self._cold_bytes += cold_bytes

    def take_is_cold(self) -> bool:
        """Whether most of what was read since the last call was not in memory."""
        is_cold = 2 * self._cold_bytes > self._read_bytes
        self._read_bytes = self._cold_bytes = 0
        return is_cold


class _CacheNeutralFile(SegmentFile):
    __slots__ = ("_advised_fd", "_store")

    def __init__(self, path: str, cache: FileCache, store: CacheNeutralFiles) -> None:
        super().__init__(path, cache)
        self._store = store
        self._advised_fd = -1

    def read_at(self, size: int, position: int) -> bytes:
        if size <= 0:
            return b""
        warm = self._read_from_memory(size, position)
        if warm is None or len(warm) == size:
            self._store.count(size, 0)
            return super().read_at(size, position) if warm is None else warm
        start = position + len(warm)
        rest = super().read_at(size - len(warm), start)
        self._store.count(len(warm) + len(rest), len(rest))
        if rest:
            # The page in which the piece before ended was not dropped with it.
            _drop(self.fd, position - position % _PAGE if len(warm) < _PAGE else start, start + len(rest))
        return warm + rest

    def _read_from_memory(self, size: int, position: int) -> bytes | None:
        """What can be read without the disk; None where the file system can't tell."""
        fd = self.descriptor()
        if fd != self._advised_fd:
            self._advised_fd = fd
            with suppress(OSError):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        buffer = bytearray(size)
        try:
            got = os.preadv(fd, [buffer], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return b""
        except OSError:
            # Also where the disk has failed: the read that follows says so.
            return None
        return bytes(buffer) if got == size else bytes(buffer[:got])


def drop_from_memory(path: str) -> None:
    """Drop a file that is on disk from memory. Raises `StorageFailed`, FileNotFoundError."""
    with storage_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _drop(fd, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def _drop(fd: int, start: int, end: int) -> None:
    # A hint: a file system that does not know it keeps what it has.
    with suppress(OSError):
        os.posix_fadvise(fd, start, end - start, os.POSIX_FADV_DONTNEED)
