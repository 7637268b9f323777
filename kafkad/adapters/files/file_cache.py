"""Which files of a process are open right now? Never more than the budget, never EMFILE to a client.

Files are opened when touched and closed by second chance: a cheap form of "least recently used" which costs the
hot path one attribute. A pinned file stays open. One thread only; readers in other threads get pinned descriptors.
"""

import errno
import os
from collections import deque
from pathlib import Path

from kafkad.core.ports import StorageFailed

_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class CachedFile:
    """A file by name, with its descriptor while it is open."""

    __slots__ = ("_cache", "fd", "is_unwanted", "path", "pins", "was_used")

    def __init__(self, path: str, cache: "FileCache") -> None:
        self.path = path
        self.fd = -1
        self.pins = 0
        self.was_used = False
        self.is_unwanted = False
        """Closed while pinned: the last `unpin` closes the descriptor, which frees the space of a removed file."""
        self._cache = cache

    def pin(self) -> int:
        """The descriptor, kept open until `unpin` (a `sendfile` under way, a read in another thread)."""
        fd = self.descriptor()
        self.pins += 1
        return fd

    def unpin(self) -> None:
        assert self.pins > 0, f"{self.path} was given back more often than it was lent"
        self.pins -= 1
        if self.is_unwanted:
            self.close()

    def descriptor(self) -> int:
        self.was_used = True
        return self.fd if self.fd >= 0 else self._cache.open(self)

    def close(self) -> None:
        """Close the descriptor: now, or with the last `unpin`."""
        if self.pins:
            self.is_unwanted = True
        elif self.fd >= 0:
            self._cache.close(self)


class FileCache:
    """The open files of this process. They exceed the budget only while all of them are pinned."""

    def __init__(self, budget: int, *, read_only: bool = False) -> None:
        assert budget > 0, "a process that may open no file can't serve a log"
        self._budget = budget
        self._flags = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
        self._ring: deque[CachedFile] = deque()
        """Every open file, and some that were closed since; those are dropped during eviction."""
        self.open_count = 0
        self.may_wait = True
        """Whether reads may wait for the disk; if not, such a read raises `NotInMemory`."""

    def file(self, path: Path | str) -> CachedFile:
        return CachedFile(str(path), self)

    def open(self, file: CachedFile) -> int:
        """Open `file` now. Raises FileNotFoundError when it is gone, StorageFailed when the disk won't."""
        while self.open_count >= self._budget and self._close_one():
            pass
        file.fd = self._open_with_retry(file.path)
        self.open_count += 1
        self._ring.append(file)
        if len(self._ring) > 2 * self._budget:
            self._ring = deque(dict.fromkeys(known for known in self._ring if known.fd >= 0))
        return file.fd

    def close(self, file: CachedFile) -> None:
        fd, file.fd = file.fd, -1
        file.is_unwanted = False
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
                # Sockets and files share one limit: close a file rather than fail.
                if error.errno not in _OUT_OF_DESCRIPTORS or not self._close_one():
                    raise StorageFailed(f"can't open {path}: {error}") from error

    def _close_one(self) -> bool:
        """Close the first file that is not pinned and was not used since it was last looked at."""
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
