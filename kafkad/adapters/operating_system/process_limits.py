"""Kernel settings of a process: open files, threads, its name in `ps`."""

import ctypes
import resource
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread

_PR_SET_NAME = 15
_ARG_START, _ARG_END = 47, 48
"""Fields of /proc/self/stat, counted from 0 (proc(5): arg_start is field 48)."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 64 * 1024 * 1024
_LARGEST_KEPT = 32 * 1024 * 1024
"""Of one piece; the C library takes no larger value."""


def raise_open_files() -> None:
    """Lift the soft limit of open files to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files_limit() -> int:
    """The soft limit of this process, which all processes of the broker share."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class OutOfResources(Exception):
    """The machine lacks a resource for this process now; one line. The process itself is sound."""


def require_threads(count: int) -> None:
    """Try to start that many threads at once. Libraries abort a process in which their threads can't start."""
    together = Barrier(count + 1)
    try:
        for _ in range(count):
            Thread(target=_meet, args=(together,), daemon=True).start()
    except RuntimeError as error:
        together.abort()
        raise OutOfResources(
            "no more threads may be started, which count as processes (ulimit -u, TasksMax=, pids.max)"
        ) from error
    together.wait()


def _meet(together: Barrier) -> None:
    with suppress(BrokenBarrierError):
        together.wait()


def set_process_title(name: str) -> None:
    """Show up as `kafkad name` in ps, and as `name` (15 bytes) in top."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    start, end = _argument_area()
    title = f"kafkad {name}".encode()
    if end - start > len(title):
        # The memory of the command's arguments, which exec filled and nothing reads any more.
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, title, len(title))


def _argument_area() -> tuple[int, int]:
    """Where the kernel reads /proc/self/cmdline from; (0, 0) where it does not tell."""
    stat = Path("/proc/self/stat").read_bytes()
    # The name in parentheses may hold spaces: count from behind it (field 3 is the first one there).
    fields = stat[stat.rindex(b")") + 2 :].split()
    if len(fields) <= _ARG_END - 2:
        return 0, 0
    return int(fields[_ARG_START - 2]), int(fields[_ARG_END - 2])


def release_free_memory() -> None:
    """Return freed memory to the kernel (malloc_trim(3)), as the C library may keep it otherwise."""
    ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """From now on freed memory stays with the process until `release_free_memory` (mallopt(3)).

    Work that takes and frees megabytes at each step would pay for a page fault with every page each time.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)
