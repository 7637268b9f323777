"""Reads whole files without displacing pages of clients from the page cache.

Pages that were cached before a read stay cached, others are dropped after the read. The kernel does not read ahead, so
that pages are cached only because of other readers.
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
_LARGEST_REUSED = 8 * 1024 * 1024
"""Larger pieces get new buffers."""


class _PieceBuffer:
    """A reused buffer for pieces, which avoids copies and zeroed memory.

    `BytesIO` shares its bytes with the result of `getvalue`, and takes new memory for the next write while the result
    is in use.
    """

    def __init__(self) -> None:
        self._bytes = BytesIO()

    def read_from_memory(self, fd: int, size: int, position: int) -> bytes:
        """The first cached bytes of this range. Raises OSError."""
        buffer = self._bytes
        if buffer.seek(0, SEEK_END) < size:
            buffer.seek(size - 1)
            buffer.write(b"\0")
        buffer.truncate(size)
        with buffer.getbuffer() as view:
            count = os.preadv(fd, [view], position, os.RWF_NOWAIT)
        buffer.truncate(count)
        return buffer.getvalue()


class CacheNeutralFiles(SegmentFiles):
    """Read-only files of a directory, for reads from begin to end in large pieces."""

    def __init__(self, directory: str, files: FileCache) -> None:
        super().__init__(directory, files)
        self._read_files = files
        self._read_bytes = self._cold_bytes = 0
        # The reader of a piece still uses the previous piece.
        self._buffers = deque((_PieceBuffer(), _PieceBuffer()))

    def next_buffer(self, size: int) -> _PieceBuffer:
        if size > _LARGEST_REUSED:
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
        """Whether most bytes read since the last call were not cached."""
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
            # The last page of the previous piece was not dropped with that piece.
            _drop(self.fd, position - position % _PAGE if len(warm) < _PAGE else start, start + len(rest))
        return warm + rest

    def _read_from_memory(self, size: int, position: int) -> bytes | None:
        """The first cached bytes; None if the file system does not support such reads."""
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
            # Also if the disk has failed: the following read reports the error.
            return None


def drop_from_memory(path: str) -> None:
    """Drop a synced file from the page cache. Raises `StorageFailed`, FileNotFoundError."""
    with storage_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _drop(fd, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def _drop(fd: int, start: int, end: int) -> None:
    # A hint, which some file systems ignore.
    with suppress(OSError):
        os.posix_fadvise(fd, start, end - start, os.POSIX_FADV_DONTNEED)
