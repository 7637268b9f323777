"""When may the directory that a partition was moved from be removed? When no reader can be about to open it.

Until then it keeps its name, as readers of the earlier generation open files there.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kafkad.adapters.files.directory_removal import DirectoryRemovals
from kafkad.adapters.files.moved_directory import forget_synced_source, mark_for_deletion
from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.adapters.shared_memory.process_registry import GRACE_CHECK_MS, GraceMark, ProcessRegistry
from kafkad.core.ports import StorageFailed
from kafkad.processes.worker.owned import OwnedPartition

log = logging.getLogger(__name__)


class _Left(NamedTuple):
    owned: OwnedPartition
    directory: Path
    marks: tuple[GraceMark, ...]


class LeftDirectories:
    """`is_free` is called with the partition when its old directory has lost its name."""

    def __init__(self, registry: ProcessRegistry, is_free: Callable[[OwnedPartition], None]) -> None:
        self._registry = registry
        self._is_free = is_free
        self._left: list[_Left] = []
        self._look_ms = 0
        self._removals = DirectoryRemovals()
        self._threads = HelperThreads(1, "moved")

    def has(self, owned: OwnedPartition) -> bool:
        return any(left.owned is owned for left in self._left)

    def add(self, owned: OwnedPartition, directory: Path) -> None:
        """Call it when the slot names the new directory."""
        self._left.append(_Left(owned, directory, self._registry.grace_marks()))
        self._look_ms = 0

    @property
    def next_check_ms(self) -> int | None:
        return self._look_ms if self._left else None

    def look(self, now_ms: int) -> None:
        if not self._left or now_ms < self._look_ms:
            return
        self._look_ms = now_ms + GRACE_CHECK_MS
        for left in [left for left in self._left if self._registry.has_grace_ended(left.marks)]:
            self._left.remove(left)
            self._free_name(left)
            self._is_free(left.owned)

    def free_names_of(self, owned: OwnedPartition) -> None:
        """The topic was deleted, and the next one of its name may come."""
        for left in [left for left in self._left if left.owned is owned]:
            self._left.remove(left)
            self._free_name(left)

    def _free_name(self, left: _Left) -> None:
        try:
            leaving = mark_for_deletion(left.directory, left.owned.name)
        except StorageFailed as error:
            # The next start knows from `kafkad-moved` that it is of no use any more.
            log.warning("%s was moved, its old directory can't be renamed: %s", left.owned.name, error)
            return
        if leaving is not None:
            self._removals.add(leaving)

    def forget(self, owned: OwnedPartition, live: Path) -> None:
        """The controller knows that the partition is in `live`. Until now the next life of this worker would have
        needed the note there where it came from.
        """
        if not self.has(owned):
            self._threads.submit(_forget, live)

    def remove(self, directory: Path, owned: OwnedPartition) -> None:
        """Nobody reads it."""
        try:
            leaving = mark_for_deletion(directory, owned.name)
        except StorageFailed as error:
            log.warning("%s can't be removed: %s", directory, error)
            return
        if leaving is not None:
            self._removals.add(leaving)

    def close(self) -> None:
        """No reader is left."""
        for left in self._left:
            self._free_name(left)
        self._removals.close()
        self._threads.close()


def _forget(live: Path) -> None:
    """By a thread. A note that stays does no harm: the next move removes it."""
    try:
        forget_synced_source(live)
    except (StorageFailed, FileNotFoundError) as error:
        log.warning("%s keeps the note where it was moved from: %s", live, error)
