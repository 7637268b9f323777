"""Removes directories with their content in a thread, because removing a fragmented large file takes long.

Files that can't be removed remain, with one log line for each directory.
"""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kafkad.adapters.operating_system.helper_threads import HelperThreads

log = logging.getLogger(__name__)


class DirectoryRemovals:
    """Removes directories one after the other, in the order of `add`."""

    def __init__(self) -> None:
        self._threads = HelperThreads(1, "directory removal")
        self._is_closed = False

    def add(self, path: Path) -> None:
        self._threads.submit(self._remove_and_log, path)

    def close(self) -> None:
        """Wait for the removal of at most one file; the next start removes the rest."""
        self._is_closed = True
        self._threads.close(cancel=True)

    def _remove_and_log(self, path: Path) -> None:
        problem = None
        for error in self._remove(str(path)):
            if self._is_closed:
                return
            if problem is None and error is not None and not isinstance(error, FileNotFoundError):
                problem = error
        if problem is not None:
            log.error("can't remove directory %s of a deleted topic: %s", path, problem)

    def _remove(self, path: str) -> Iterator[OSError | None]:
        """Yields after each attempt to remove an entry: the error, if it failed."""
        if self._is_closed:
            return
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield from self._remove(entry.path)
                    else:
                        yield _try(os.unlink, entry.path)
        except OSError as error:
            yield error
            return
        # A partition's directory may be a symbolic link: then its target remains as an empty directory.
        yield _try(os.unlink if os.path.islink(path) else os.rmdir, path)


def _try(remove: Callable[[str], None], path: str) -> OSError | None:
    try:
        remove(path)
    except OSError as error:
        return error
    return None
