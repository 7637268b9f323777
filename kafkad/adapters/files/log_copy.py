"""Copies files of a partition to another directory, in a thread: ranges of bytes, or whole small files.

Copies keep the modification time, which retention uses for segments without timestamps. A copied `.log` gets it when
the file is complete and synced, so that a resumed copy can skip complete files.
"""

import os
from collections.abc import Collection, Iterable

from kafkad.adapters.files.storage_errors import storage_errors

_WINDOW_BYTES = 1 << 20


def copy_bytes(source: str, target: str, start: int, end: int, *, sync: bool) -> None:
    """Copy the bytes from `start` to `end`. Raises FileNotFoundError, StorageFailed, NoSpaceLeft."""
    with (
        storage_errors(target),
        open(source, "rb", buffering=0) as old,
        open(_create(target), "wb", buffering=0) as new,
    ):
        window = memoryview(bytearray(min(_WINDOW_BYTES, max(end - start, 1))))
        while start < end:
            start += _copy_window(old.fileno(), new.fileno(), window[: end - start], start)
        if sync:
            os.fsync(new.fileno())


def _create(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _copy_window(old: int, new: int, window: memoryview, at: int) -> int:
    size = os.preadv(old, [window], at)
    if not size:
        raise OSError("the file was truncated")
    written = 0
    while written < size:
        written += os.pwrite(new, window[written:size], at + written)
    return size


def copy_small_files(source: str, target: str, names: Iterable[str], log_name: str) -> None:
    """Copy and sync the existing files of `names`, and sync the copied `log_name`. Raises as `copy_bytes`."""
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
    """The files of `names` that are complete in `target`, with their sizes. Removes all others there, except `kept`.

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
    """The size of a complete copy of the current file; None if it is not complete."""
    try:
        with storage_errors(target):
            old, new = os.stat(source), os.stat(target)
    except FileNotFoundError:
        return None
    is_whole = (old.st_size, old.st_mtime_ns) == (new.st_size, new.st_mtime_ns)
    return new.st_size if is_whole else None
