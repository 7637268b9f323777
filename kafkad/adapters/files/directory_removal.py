"""Directories that are to go with all that is in them, a file at a time: there may be tens of thousands.

What can't be removed stays, and is said once for each directory.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger(__name__)


def _nothing() -> None:
    """Nobody waits for it."""


class DirectoryRemovals:
    """One after the other, in the order in which they were added."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Path, Callable[[], object]]] = deque()
        self._steps: Iterator[None] | None = None
        self._problem: OSError | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, path: Path, done: Callable[[], object] = _nothing) -> None:
        """`done` is called when it was tried, whatever is left of it."""
        self._waiting.append((path, done))

    def work(self, until_s: float) -> None:
        """Go on to about this time of the monotonic clock, by one file at least."""
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
        """Of those that there are the first; what is gone already is none."""
        if self._problem is None and not isinstance(error, FileNotFoundError):
            self._problem = error
