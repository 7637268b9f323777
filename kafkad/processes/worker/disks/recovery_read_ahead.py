"""Threads read the next logs of recovery into the page cache, some of each log directory at a time.

A worker recovers one log after the other. After a power failure nothing is cached, and each of several disks would wait
for the others; a disk also reads faster with several requests at a time. The threads only read; recovery reads the rest
itself.
"""

import os
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from pathlib import Path

from kafkad.adapters.operating_system.helper_threads import HelperThreads

_MOST_BYTES = 128 << 20
"""Of one log: more could evict pages that recovery reads first."""
_STEP_BYTES = 1 << 20
_NAME_DIGITS = 20

Read = Callable[[Path, int], None]


def read_log(directory: Path, recovery_point: int) -> None:
    """Read the segments of a partition from `recovery_point` on. Recovery detects errors itself."""
    buffer = bytearray(_STEP_BYTES)
    remaining = _MOST_BYTES
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".log"))
        for number, name in enumerate(names):
            next_base = names[number + 1][:_NAME_DIGITS] if number + 1 < len(names) else ""
            if next_base.isdigit() and int(next_base) <= recovery_point:
                continue
            with open(directory / name, "rb", buffering=0) as file:
                while remaining > 0 and (size := file.readinto(buffer)):
                    remaining -= size
    except OSError:
        return


class RecoveryReadAhead:
    """`threads` logs of each log directory are read at a time. All methods are called by the loop's thread."""

    def __init__(self, threads: int, log_dirs: int, read: Read = read_log) -> None:
        self.threads = threads
        """For each log directory; a change applies to the next read."""
        self._read = read
        self._waiting: list[deque[tuple[Hashable, Path, int]]] = [deque() for _ in range(log_dirs)]
        self._running: list[list[Future[None]]] = [[] for _ in range(log_dirs)]
        self._skipped: set[Hashable] = set()
        self._pool: HelperThreads | None = None

    def add(self, key: Hashable, log_dir: int, directory: Path, recovery_point: int) -> None:
        """This log will be recovered after the earlier ones."""
        self._waiting[log_dir].append((key, directory, recovery_point))

    def skip(self, key: Hashable) -> None:
        """The recovery of this log has begun, or its topic was deleted: do not read it ahead."""
        self._skipped.add(key)

    def tick(self) -> None:
        """Begin as many reads as allowed."""
        for waiting, running in zip(self._waiting, self._running, strict=True):
            running[:] = [future for future in running if not future.done()]
            while waiting and len(running) < self.threads:
                key, directory, recovery_point = waiting.popleft()
                if key in self._skipped:
                    self._skipped.discard(key)
                    continue
                if self._pool is None:
                    self._pool = HelperThreads(self.threads * len(self._waiting), "read-ahead of recovery")
                running.append(self._pool.submit(self._read, directory, recovery_point))

    def close(self) -> None:
        """All logs are loaded: end the threads."""
        for waiting in self._waiting:
            waiting.clear()
        self._skipped.clear()
        if self._pool is not None:
            self._pool.close(cancel=True)
            self._pool = None
