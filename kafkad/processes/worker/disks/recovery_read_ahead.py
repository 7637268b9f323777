"""Threads read the logs that recovery comes to next into the page cache, some of each log directory at a time.

A worker checks one log after the other. After a power loss nothing is cached, and each of several disks would wait for
the others; a disk also reads faster when it is asked for several files at once. The threads only read: what they have
not read yet, recovery reads itself.
"""

import os
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from pathlib import Path

from kafkad.adapters.operating_system.helper_threads import HelperThreads

_MOST_BYTES = 128 << 20
"""Of one log: more could push out of the cache what is needed first."""
_STEP_BYTES = 1 << 20
_NAME_DIGITS = 20

Read = Callable[[Path, int], None]


def read_log(directory: Path, recovery_point: int) -> None:
    """Read the segments of a partition from `recovery_point` on. Errors are for recovery to meet."""
    buffer = bytearray(_STEP_BYTES)
    left = _MOST_BYTES
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".log"))
        for at, name in enumerate(names):
            following = names[at + 1][:_NAME_DIGITS] if at + 1 < len(names) else ""
            if following.isdigit() and int(following) <= recovery_point:
                continue
            with open(directory / name, "rb", buffering=0) as file:
                while left > 0 and (size := file.readinto(buffer)):
                    left -= size
    except OSError:
        return


class RecoveryReadAhead:
    """`threads` logs of each log directory are read at a time. All methods are for the loop's thread."""

    def __init__(self, threads: int, log_dirs: int, read: Read = read_log) -> None:
        self.threads = threads
        """Of each log directory. A change takes effect with the next read."""
        self._read = read
        self._waiting: list[deque[tuple[Hashable, Path, int]]] = [deque() for _ in range(log_dirs)]
        self._running: list[list[Future[None]]] = [[] for _ in range(log_dirs)]
        self._begun: set[Hashable] = set()
        self._pool: HelperThreads | None = None

    def add(self, key: Hashable, log_dir: int, directory: Path, recovery_point: int) -> None:
        """This log will be recovered after those that were added before."""
        self._waiting[log_dir].append((key, directory, recovery_point))

    def passed(self, key: Hashable) -> None:
        """Recovery has come to this log, or it is gone: nothing is gained by reading it ahead."""
        self._begun.add(key)

    def tick(self) -> None:
        """Begin as many as there is room for."""
        for waiting, running in zip(self._waiting, self._running, strict=True):
            running[:] = [future for future in running if not future.done()]
            while waiting and len(running) < self.threads:
                key, directory, recovery_point = waiting.popleft()
                if key in self._begun:
                    self._begun.discard(key)
                    continue
                if self._pool is None:
                    self._pool = HelperThreads(self.threads * len(self._waiting), "read-ahead of recovery")
                running.append(self._pool.submit(self._read, directory, recovery_point))

    def close(self) -> None:
        """All is loaded: the threads end."""
        for waiting in self._waiting:
            waiting.clear()
        self._begun.clear()
        if self._pool is not None:
            self._pool.close(cancel=True)
            self._pool = None
