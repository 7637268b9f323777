"""Removes the old directories of moved partitions, when no reader can be about to open their files.

Until then a directory keeps its name, because readers of the earlier generation open files there.
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


class _OldDirectory(NamedTuple):
    owned: OwnedPartition
    directory: Path
    marks: tuple[GraceMark, ...]


class OldDirectories:
    """`is_free` is called with the partition when its old directory is renamed."""

    def __init__(self, registry: ProcessRegistry, is_free: Callable[[OwnedPartition], None]) -> None:
        self._registry = registry
        self._is_free = is_free
        self._directories: list[_OldDirectory] = []
        self._next_check_ms = 0
        self._removals = DirectoryRemovals()
        self._threads = HelperThreads(1, "moved")

    def has(self, owned: OwnedPartition) -> bool:
        return any(old.owned is owned for old in self._directories)

    def add(self, owned: OwnedPartition, directory: Path) -> None:
        """Called when the slot has the new directory."""
        self._directories.append(_OldDirectory(owned, directory, self._registry.grace_marks()))
        self._next_check_ms = 0

    @property
    def next_check_ms(self) -> int | None:
        return self._next_check_ms if self._directories else None

    def tick(self, now_ms: int) -> None:
        if not self._directories or now_ms < self._next_check_ms:
            return
        self._next_check_ms = now_ms + GRACE_CHECK_MS
        for old in [old for old in self._directories if self._registry.has_grace_ended(old.marks)]:
            self._directories.remove(old)
            self._free_name(old)
            self._is_free(old.owned)

    def free_names_of(self, owned: OwnedPartition) -> None:
        """The topic was deleted: another topic of its name may be created."""
        for old in [old for old in self._directories if old.owned is owned]:
            self._directories.remove(old)
            self._free_name(old)

    def _free_name(self, old: _OldDirectory) -> None:
        try:
            marked = mark_for_deletion(old.directory, old.owned.name)
        except StorageFailed as error:
            # The next start detects by `kafkad-moved` that the directory is obsolete.
            log.warning("cannot rename the old directory of %s after its move: %s", old.owned.name, error)
            return
        if marked is not None:
            self._removals.add(marked)

    def forget(self, owned: OwnedPartition, live: Path) -> None:
        """The controller has stored that the partition is in `live`: remove the note of its source, which only the next
        incarnation of this worker would have read.
        """
        if not self.has(owned):
            self._threads.submit(_forget, live)

    def remove(self, directory: Path, owned: OwnedPartition) -> None:
        """Remove a directory without readers."""
        try:
            marked = mark_for_deletion(directory, owned.name)
        except StorageFailed as error:
            log.warning("cannot remove %s: %s", directory, error)
            return
        if marked is not None:
            self._removals.add(marked)

    def close(self) -> None:
        """No reader is left."""
        for old in self._directories:
            self._free_name(old)
        self._removals.close()
        self._threads.close()


def _forget(live: Path) -> None:
    """Called by a thread. A remaining note is harmless: the next move removes it."""
    try:
        forget_synced_source(live)
    except (StorageFailed, FileNotFoundError) as error:
        log.warning("cannot remove the source note of moved directory %s: %s", live, error)
