"""Kernel settings of a process: open files, threads, the name in `ps`, and memory, also of its control groups."""

import ctypes
import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread

_PR_SET_NAME = 15
_ARG_START, _ARG_END = 47, 48
"""Fields of /proc/self/stat, counted from 0 (proc(5): arg_start is field 48)."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 64 * 1024 * 1024
_LARGEST_KEPT = 32 * 1024 * 1024
"""The largest kept allocation; the C library allows no larger value."""


def raise_open_files() -> None:
    """Raise the soft limit of open files to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files_limit() -> int:
    """The soft limit of open files, the same in all processes of the broker."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class OutOfResources(Exception):
    """The machine lacks a resource for this process; the message is one line. It is not a bug of the process."""


def require_threads(count: int) -> None:
    """Check that `count` threads can be started: libraries abort the process if their threads can't be started."""
    together = Barrier(count + 1)
    try:
        for _ in range(count):
            Thread(target=_meet, args=(together,), daemon=True).start()
    except RuntimeError as error:
        together.abort()
        raise OutOfResources(
            "can't start more threads, which count as processes: raise ulimit -u, TasksMax= or pids.max"
        ) from error
    together.wait()


def _meet(together: Barrier) -> None:
    with suppress(BrokenBarrierError):
        together.wait()


def set_process_title(name: str) -> None:
    """Set the name in ps to `kafkad name`, and in top to `name` (15 bytes)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    start, end = _argument_area()
    title = f"kafkad {name}".encode()
    if end - start > len(title):
        # The memory of the command's arguments, which are no longer used.
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, title, len(title))


def _argument_area() -> tuple[int, int]:
    """The begin and end of the memory that /proc/self/cmdline shows; (0, 0) if unknown."""
    stat = Path("/proc/self/stat").read_bytes()
    # The name in parentheses may contain spaces: count the fields after it (the first one is field 3).
    fields = stat[stat.rindex(b")") + 2 :].split()
    if len(fields) <= _ARG_END - 2:
        return 0, 0
    return int(fields[_ARG_START - 2]), int(fields[_ARG_END - 2])


def release_free_memory() -> None:
    """Release freed memory to the kernel (malloc_trim(3))."""
    ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Keep freed memory in this process until `release_free_memory` (mallopt(3)).

    Otherwise work that allocates and frees megabytes in each step would cause a page fault for each page.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)


_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def data_limit() -> int | None:
    """The soft limit of a process's private memory (RLIMIT_DATA); None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


def group_limit(own_groups: Path = _OWN_GROUPS, groups: Path = _GROUPS) -> int | None:
    """The smallest limit of this process's control groups; None if there is no limit, or no readable one."""
    try:
        lines = own_groups.read_text().splitlines()
    except OSError:
        return None
    found: list[int] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            found += _limits(groups, path, "memory.max")
        elif "memory" in controllers.split(","):
            found += _limits(groups / "memory", path, "memory.limit_in_bytes")
    return min(found, default=None)


def _limits(root: Path, path: str, name: str) -> Iterable[int]:
    """The limits of the group and its parents. In a container the path may be the host's, and the group the root."""
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder.is_relative_to(root):
            # "max" is no limit.
            with suppress(OSError, ValueError):
                yield int((folder / name).read_text())
