"""The open files of a process: at most the budget, so that clients never get errors because of EMFILE.

Files are opened on demand and closed by second chance, an approximation of "least recently used" that costs the hot
path one attribute. A pinned file stays open. For one thread only; readers in other threads use pinned descriptors.
"""

import errno
import os
from collections import deque
from pathlib import Path

from kafkad.core.ports import StorageFailed

_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class CachedFile:
    """A file by name, with its descriptor while it is open."""

    __slots__ = ("_cache", "close_requested", "fd", "path", "pins", "was_used")

    def __init__(self, path: str, cache: "FileCache") -> None:
        self.path = path
        self.fd = -1
        self.pins = 0
        self.was_used = False
        self.close_requested = False
        """`close` was called while pinned: the last `unpin` closes the descriptor and frees a removed file's space."""
        self._cache = cache

    def pin(self) -> int:
        """The descriptor, kept open until `unpin` (for a pending `sendfile`, or a read in another thread)."""
        fd = self.descriptor()
        self.pins += 1
        return fd

    def unpin(self) -> None:
        assert self.pins > 0, f"{self.path} was unpinned more often than pinned"
        self.pins -= 1
        if self.close_requested:
            self.close()

    def descriptor(self) -> int:
        self.was_used = True
        return self.fd if self.fd >= 0 else self._cache.open(self)

    def close(self) -> None:
        """Close the descriptor: now, or with the last `unpin`."""
        if self.pins:
            self.close_requested = True
        elif self.fd >= 0:
            self._cache.close(self)


class FileCache:
    """The open files of this process. They exceed the budget only while all are pinned."""

    def __init__(self, budget: int, *, read_only: bool = False) -> None:
        assert budget > 0, "a process that may open no file can't serve a log"
        self._budget = budget
        self._flags = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
        self._ring: deque[CachedFile] = deque()
        """All open files, and some closed ones, which are dropped during eviction."""
        self.open_count = 0
        self.may_wait = True
        """Whether reads may wait for the disk; if not, a read from the disk raises `NotInMemory`."""

    def file(self, path: Path | str) -> CachedFile:
        return CachedFile(str(path), self)

    def open(self, file: CachedFile) -> int:
        """Open `file`. Raises FileNotFoundError if it was removed, StorageFailed for disk errors."""
        while self.open_count >= self._budget and self._close_one():
            pass
        file.fd = self._open_with_retry(file.path)
        self.open_count += 1
        self._ring.append(file)
        if len(self._ring) > 2 * self._budget:
            self._ring = deque(dict.fromkeys(each for each in self._ring if each.fd >= 0))
        return file.fd

    def close(self, file: CachedFile) -> None:
        fd, file.fd = file.fd, -1
        file.close_requested = False
        self.open_count -= 1
        os.close(fd)

    def close_all(self) -> None:
        for file in list(self._ring):
            file.close()
        self._ring.clear()

    def _open_with_retry(self, path: str) -> int:
        while True:
            try:
                return os.open(path, self._flags)
            except FileNotFoundError:
                raise
            except OSError as error:
                # Sockets and files share one limit: close a file instead of failing.
                if error.errno not in _OUT_OF_DESCRIPTORS or not self._close_one():
                    raise StorageFailed(f"can't open {path}: {error}") from error

    def _close_one(self) -> bool:
        """Close the first file that is not pinned and was not used since the last check."""
        for _ in range(2 * len(self._ring)):
            if not self._ring:
                break
            file = self._ring.popleft()
            if file.fd < 0:
                continue
            if file.pins or file.was_used:
                file.was_used = False
                self._ring.append(file)
                continue
            file.close()
            return True
        return False
