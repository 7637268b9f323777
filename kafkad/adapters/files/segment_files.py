"""The directory of one partition as `SegmentStore`: plain files, opened on demand.

All writes have a position, so that the next write overwrites the write of a killed writer. Disk errors become
`NoSpaceLeft` (the write is undone) or `StorageFailed` (the log directory goes offline).
"""

import errno
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from threading import Lock

from typing_extensions import Buffer

from kafkad.adapters.files import atomic_write
from kafkad.adapters.files.file_cache import CachedFile, FileCache
from kafkad.adapters.files.storage_errors import FULL, storage_errors
from kafkad.core.log.segments.layout import PARTITION_METADATA
from kafkad.core.ports import NoSpaceLeft, NotInMemory, StorageFailed


class SegmentFile(CachedFile):
    """One file behind the `LogFile` port. The hot methods handle errors inline, because a context manager costs 1 µs.

    A file without changes since its last sync is not synced again. The first sync is always done, because an earlier
    process may have written.
    """

    __slots__ = ("_changes", "_synced")

    def __init__(self, path: str, cache: FileCache) -> None:
        super().__init__(path, cache)
        self._changes = 0
        """Incremented after each change, because a sync in another thread may miss a concurrent change."""
        self._synced = -1
        """The value of `_changes` before the last sync."""

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        fd = self.fd
        if fd < 0:
            fd = self.descriptor()
        self.was_used = True
        expected = sum(map(_length, buffers))
        try:
            written = os.pwritev(fd, buffers, position)
            if written != expected:
                self._write_rest(fd, buffers, position, written)
        except OSError as error:
            self._changes += 1
            self._undo(fd, position, error)
        self._changes += 1

    def read_at(self, size: int, position: int) -> bytes:
        if size <= 0:
            return b""
        read = os.pread if self._cache.may_wait else _read_from_memory
        try:
            data = read(self.descriptor(), size, position)
            while len(data) < size:
                rest = read(self.fd, size - len(data), position + len(data))
                if not rest:
                    break
                data += rest
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageFailed(f"can't read {self.path}: {error}") from error
        return data

    def size(self) -> int:
        fd = self.descriptor()
        try:
            return os.fstat(fd).st_size
        except OSError as error:
            raise StorageFailed(f"can't read the size of {self.path}: {error}") from error

    def truncate(self, size: int) -> None:
        fd = self.descriptor()
        try:
            os.ftruncate(fd, size)
        except OSError as error:
            kind = NoSpaceLeft if error.errno in FULL else StorageFailed
            raise kind(f"can't truncate {self.path}: {error}") from error
        finally:
            self._changes += 1

    def sync(self) -> None:
        """Sync the descriptor of the writes, if it is still open: the kernel may report a write-back error only to
        descriptors that were open at the time of the error.
        """
        changes = self._changes
        if self._synced == changes:
            return
        with storage_errors(self.path):
            if self.fd >= 0:
                os.fsync(self.fd)
            else:
                _sync_by_name(self.path)
        # Set after the sync: concurrent callers must wait for the disk too.
        self._synced = changes

    def lend(self) -> "SegmentFile":
        """Pin the file for a sync in another thread; `free` unpins it. A closed file is replaced by a separate object,
        because only the owner's thread may use the cache.
        """
        if self.fd < 0:
            return SegmentFile(self.path, self._cache)
        self.pins += 1
        return self

    def free(self) -> None:
        if self.pins:
            self.unpin()

    def _write_rest(self, fd: int, buffers: Sequence[Buffer], position: int, written: int) -> None:
        rest = memoryview(b"".join(buffers))
        while written < len(rest):
            count = os.pwrite(fd, rest[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, "a write returned 0 bytes")
            written += count

    def _undo(self, fd: int, position: int, error: OSError) -> None:
        """Undo a failed write, which may have extended the file. A write to a preallocated index can't extend it."""
        if error.errno not in FULL:
            raise StorageFailed(f"can't write {self.path}: {error}") from error
        try:
            os.ftruncate(fd, position)
        except OSError as second:
            raise StorageFailed(f"can't undo a write to {self.path}: {second}") from error
        raise NoSpaceLeft(f"no space left for {self.path}: {error}") from error


def _sync_by_name(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read_from_memory(fd: int, size: int, position: int) -> bytes:
    """Read cached bytes. Raises NotInMemory. If the file system does not support this, reads from the disk."""
    buffer = bytearray(size)
    try:
        count = os.preadv(fd, [buffer], position, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            raise NotInMemory from error
        return os.pread(fd, size, position)
    return bytes(buffer[:count])


def _length(buffer: Buffer) -> int:
    return memoryview(buffer).nbytes


class SegmentFiles:
    """`SegmentStore` of a directory; all partitions of a process share one `FileCache`."""

    def __init__(self, directory: Path | str, files: FileCache) -> None:
        self.directory = str(directory)
        self._files = files
        self._is_name_synced = False
        self._are_names_synced = False
        self._syncing = Lock()

    def sizes(self) -> Mapping[str, int]:
        sizes = {}
        with storage_errors(self.directory), os.scandir(self.directory) as entries:
            for entry in entries:
                try:
                    if entry.is_file():
                        sizes[entry.name] = entry.stat().st_size
                except FileNotFoundError:
                    # A thread has unlinked a removed segment meanwhile.
                    continue
        return sizes

    def names(self) -> Collection[str]:
        with storage_errors(self.directory):
            return os.listdir(self.directory)

    def open(self, name: str, *, create: bool = False) -> SegmentFile:
        """The file with this name; its descriptor is opened on first use. `create` creates a missing file."""
        path = f"{self.directory}/{name}"
        if create:
            with storage_errors(path):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
            self._are_names_synced = False
        return SegmentFile(path, self._files)

    def read(self, name: str) -> bytes:
        path = f"{self.directory}/{name}"
        with storage_errors(path), open(path, "rb") as file:
            return file.read()

    def replace(self, name: str, content: bytes) -> None:
        atomic_write.write_atomically(f"{self.directory}/{name}", content)

    def has(self, name: str) -> bool:
        return os.access(f"{self.directory}/{name}", os.F_OK)

    def modified_ms(self, name: str) -> int:
        path = f"{self.directory}/{name}"
        with storage_errors(path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, name: str, modified_ms: int) -> None:
        path = f"{self.directory}/{name}"
        with storage_errors(path):
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def rename(self, old: str, new: str) -> None:
        path = f"{self.directory}/{old}"
        with storage_errors(path):
            os.rename(path, f"{self.directory}/{new}")
        self._are_names_synced = False

    def unlink(self, name: str) -> None:
        path = f"{self.directory}/{name}"
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            # Some file systems need free space to remove a file.
            kind = NoSpaceLeft if error.errno in FULL else StorageFailed
            raise kind(f"can't remove {path}: {error}") from error
        self._are_names_synced = False

    def sync_directory(self) -> None:
        """Sync the names in this directory, if they have changed. Concurrent callers wait for each other.

        The first call also syncs the parent directory, because the new directory may have no durable name yet, and the
        file with the topic id. No other process changes names here.
        """
        with self._syncing:
            if not self._is_name_synced and self.has(PARTITION_METADATA):
                with storage_errors(self.directory):
                    _sync_by_name(f"{self.directory}/{PARTITION_METADATA}")
            if not self._are_names_synced:
                # Set before the sync, which may miss concurrent changes.
                self._are_names_synced = True
                atomic_write.sync_directory(self.directory)
            if not self._is_name_synced:
                atomic_write.sync_directory(os.path.dirname(self.directory) or ".")
                self._is_name_synced = True
