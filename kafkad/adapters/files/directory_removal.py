"""Removes directories with their content, a file at a time: there may be tens of thousands.

What can't be removed stays, and is logged once for each directory.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger(__name__)


def _nothing() -> None:
    """The default `done`, for a removal that no caller waits for."""


class DirectoryRemovals:
    """Directories are removed one after the other, in the order in which they were added."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Path, Callable[[], object]]] = deque()
        self._steps: Iterator[None] | None = None
        self._problem: OSError | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, path: Path, done: Callable[[], object] = _nothing) -> None:
        """`done` is called after the attempt, even if files are left."""
        self._waiting.append((path, done))

    def work(self, until_s: float) -> None:
        """Remove at least one file, and more until about this time of the monotonic clock."""
        while self._waiting:
            path, done = self._waiting[0]
            if self._steps is None:
                self._steps, self._problem = self._remove(str(path)), None
            for _ in self._steps:
                if time.monotonic() >= until_s:
                    return
            self._waiting.popleft()
            self._steps = None
            if self._problem is not None:
                log.error("%s is left of a deleted topic and can't be removed: %s", path, self._problem)
            done()

    def _remove(self, path: str) -> Iterator[None]:
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield from self._remove(entry.path)
                    else:
                        self._try(os.unlink, entry.path)
                    yield
        except OSError as error:
            self._note(error)
            return
        self._try(os.rmdir, path)
        yield

    def _try(self, remove: Callable[[str], None], path: str) -> None:
        try:
            remove(path)
        except OSError as error:
            self._note(error)

    def _note(self, error: OSError) -> None:
        """The first directory that still exists."""
        if self._problem is None and not isinstance(error, FileNotFoundError):
            self._problem = error
