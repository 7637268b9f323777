"""The effects of a log outside the owner's loop: syncs, and delayed removal of files."""

from dataclasses import dataclass

from kafkad.core.ports import LogFile, SegmentStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushLog:
    """Sync these files, in any thread; then the owner calls `PartitionLog.flushed` with this effect, or `release` if
    the sync failed.

    A `StorageFailed` takes the directory offline and is never retried. `truncations` shows the owner whether the log
    was truncated meanwhile.
    """

    up_to: int
    truncations: int
    files: tuple[LogFile, ...]
    """References lent by the owner."""
    finished: tuple[LogFile, ...]
    """Files without further writes, open only for this sync."""
    store: SegmentStore

    def perform(self) -> None:
        for file in self.files:
            try:
                file.sync()
            except FileNotFoundError:
                # Retention has removed the segment meanwhile.
                continue
        self.store.sync_directory()

    def release(self) -> None:
        """Release the files; once, in the owner's thread, after `perform`."""
        for file in self.files:
            file.free()
        for file in self.finished:
            file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlinkFiles:
    """Remove these files with `PartitionLog.remove_files` when `delay_ms` (file.delete.delay.ms) have passed and every
    reader has seen `generation`. After a crash, loading removes them.
    """

    names: tuple[str, ...]
    delay_ms: int
    generation: int
