"""Reads whole files without pushing what clients read out of the page cache.

What was in memory before a read stays there, what was not is dropped again. The kernel reads nothing ahead here, so
that a page which is in memory is there because of somebody else.
"""

import mmap
import os
from collections import deque
from contextlib import suppress
from io import SEEK_END, BytesIO

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFile, SegmentFiles
from kafkad.adapters.files.storage_errors import storage_errors

_PAGE = mmap.PAGESIZE
_USED_AGAIN = 8 * 1024 * 1024
"""Larger pieces get memory of their own each."""


class _PieceBuffer:
    """Memory for one piece after the other, as each is neither copied nor filled with zeros before it is read.

    A piece that somebody still has is left to him, as `BytesIO` shares its bytes with who asked for them, and takes
    other memory when it is written to.
    """

    def __init__(self) -> None:
        self._bytes = BytesIO()

    def read_from_memory(self, fd: int, size: int, position: int) -> bytes:
        """What of these bytes can be read without the disk. Raises OSError."""
        held = self._bytes
        if held.seek(0, SEEK_END) < size:
            held.seek(size - 1)
            held.write(b"\0")
        held.truncate(size)
        with held.getbuffer() as view:
            got = os.preadv(fd, [view], position, os.RWF_NOWAIT)
        held.truncate(got)
        return held.getvalue()


class CacheNeutralFiles(SegmentFiles):
    """The files of a directory that are read from their beginning to their end, in large pieces."""

    def __init__(self, directory: str, files: FileCache) -> None:
        super().__init__(directory, files)
        self._read_files = files
        self._read_bytes = self._cold_bytes = 0
        # Whoever asks for a piece still holds the one before.
        self._buffers = deque((_PieceBuffer(), _PieceBuffer()))

    def next_buffer(self, size: int) -> _PieceBuffer:
        if size > _USED_AGAIN:
            return _PieceBuffer()
        self._buffers.rotate()
        return self._buffers[0]

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
        try:
            return self._store.next_buffer(size).read_from_memory(fd, size, position)
        except BlockingIOError:
            return b""
        except OSError:
            # Also where the disk has failed: the read that follows says so.
            return None


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
