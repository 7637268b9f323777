"""Copies files of a partition to another directory, in a thread: bytes of a file, or whole small files.

What was copied keeps its modification time, by which retention judges segments whose records have none. A `.log` gets
it when it is whole and on disk: that is how an interrupted copy knows what it has.
"""

import os
from collections.abc import Collection, Iterable

from kafkad.adapters.files.storage_errors import storage_errors

_WINDOW_BYTES = 1 << 20


def copy_bytes(source: str, target: str, start: int, end: int, *, sync: bool) -> None:
    """Copy the bytes from `start` to `end` to the same place. Raises FileNotFoundError, StorageFailed, NoSpaceLeft."""
    with storage_errors(target), open(source, "rb", buffering=0) as old, open(_made(target), "wb", buffering=0) as new:
        window = memoryview(bytearray(min(_WINDOW_BYTES, max(end - start, 1))))
        while start < end:
            start += _copy_window(old.fileno(), new.fileno(), window[: end - start], start)
        if sync:
            os.fsync(new.fileno())


def _made(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _copy_window(old: int, new: int, window: memoryview, at: int) -> int:
    size = os.preadv(old, [window], at)
    if not size:
        raise OSError("the file is shorter than it was")
    written = 0
    while written < size:
        written += os.pwrite(new, window[written:size], at + written)
    return size


def copy_small_files(source: str, target: str, names: Iterable[str], log_name: str) -> None:
    """Copy those files that there are, and sync them and `log_name`, which is there already. Raises as above."""
    for name in names:
        try:
            size = os.stat(f"{source}/{name}").st_size
        except FileNotFoundError:
            continue
        copy_bytes(f"{source}/{name}", f"{target}/{name}", 0, size, sync=True)
    with storage_errors(target):
        times = os.stat(f"{source}/{log_name}")
        descriptor = os.open(f"{target}/{log_name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.fsync(descriptor)
            os.utime(descriptor, ns=(times.st_atime_ns, times.st_mtime_ns))
        finally:
            os.close(descriptor)


def find_copied(source: str, target: str, names: Collection[str], kept: str) -> dict[str, int]:
    """Those of these files, with their sizes, that `target` has as a whole. What else is there is removed, but `kept`.
    Raises StorageFailed.
    """
    copied = {}
    for name in names:
        size = _same_size(f"{source}/{name}", f"{target}/{name}")
        if size is not None:
            copied[name] = size
    with storage_errors(target):
        for name in set(os.listdir(target)).difference(copied, (kept,)):
            os.unlink(f"{target}/{name}")
    return copied


def _same_size(source: str, target: str) -> int | None:
    """Of a file that was copied as a whole and has not changed since."""
    try:
        with storage_errors(target):
            old, new = os.stat(source), os.stat(target)
    except FileNotFoundError:
        return None
    is_whole = (old.st_size, old.st_mtime_ns) == (new.st_size, new.st_mtime_ns)
    return new.st_size if is_whole else None
