"""What a log wants done outside the owner's loop: waiting for the disk, and removing files later."""

from dataclasses import dataclass

from kafkad.core.ports import LogFile, SegmentStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushLog:
    """Sync these files, in any thread; then the owner calls `PartitionLog.flushed` with this effect, or `release` if
    it failed.

    A `StorageFailed` takes the directory offline and is never retried. `truncations` tells the owner whether
    the log was truncated meanwhile.
    """

    up_to: int
    truncations: int
    files: tuple[LogFile, ...]
    """Lent by the owner."""
    finished: tuple[LogFile, ...]
    """Files that are not written any more, and open only for this."""
    store: SegmentStore

    def perform(self) -> None:
        for file in self.files:
            try:
                file.sync()
            except FileNotFoundError:
                # Retention has removed the segment since, so it needs no sync.
                continue
        self.store.sync_directory()

    def release(self) -> None:
        """Called once, in the owner's thread, after the effect was performed."""
        for file in self.files:
            file.free()
        for file in self.finished:
            file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlinkFiles:
    """Remove these files with `PartitionLog.remove_files`, not before `delay_ms` are over (file.delete.delay.ms), and
    not before every reader has seen `generation`. After a crash they are removed by loading."""

    names: tuple[str, ...]
    delay_ms: int
    generation: int
