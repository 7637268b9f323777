"""The effects that the parts of a worker request. The worker process performs them in each pass: see `loop.py`.

A part changes its own state, partitions and logs. Only the state of a failed partition changes at once, so that no part
writes to it any more; what waits for the partition is completed with the other effects.

A failed disk takes its whole log directory offline. Files removed by hand take only their own partition offline: it is
not written any more, and readers get KAFKA_STORAGE_ERROR. (Apache Kafka takes the whole directory offline at the next
roll, and stops the broker with the last directory.) The same holds for corruption that prevents a follower from
truncating its log; other corruption fails only the reads of the corrupt records.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.partition_slot import STATE_OFFLINE
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.controller_messages import ControllerMessage

log = logging.getLogger(__name__)

Failure = StorageFailed | FileNotFoundError
FAILURES = (StorageFailed, FileNotFoundError)
"""The exceptions of an open log whose files are missing or cannot be written."""

NO_SPACE_LOG_MS = 60_000


def log_no_space(owned: OwnedPartition, event: str, error: NoSpaceLeft) -> None:
    """Once a minute for each partition: with a full disk every append fails, and the broker's log may be on the same
    disk.
    """
    now_ms = monotonic_ms()
    if now_ms >= owned.no_space_due_ms:
        owned.no_space_due_ms = now_ms + NO_SPACE_LOG_MS
        log.error("%s: %s: %s", owned.name, event, error)


class FailedDirectory(NamedTuple):
    """A log directory that is offline, with its partitions that were online."""

    log_dir: int
    cause: str
    lost: list[OwnedPartition]


@dataclass(slots=True)
class Effects:
    """The effects of one pass, in the order in which they are performed."""

    failed_dirs: list[FailedDirectory] = field(default_factory=list)
    offline: list[OwnedPartition] = field(default_factory=list)
    """Partitions that went offline alone."""
    removals: list[tuple[OwnedPartition, UnlinkFiles]] = field(default_factory=list)
    """Files that are unlinked when no reader uses them."""
    removed: list[int] = field(default_factory=list)
    """The slots of unlinked files: network processes close them."""
    readable: list[OwnedPartition] = field(default_factory=list)
    """Partitions whose manifest requests have waited for a swap."""
    has_flush_ended: bool = False
    """A log was synced: check the appends that wait for the disk."""
    short_dirs: list[int] = field(default_factory=list)
    """Log directories that need space."""
    has_full_dirs_changed: bool = False
    to_controller: list[ControllerMessage] = field(default_factory=list)


class Outbox:
    """The outbox of one worker. `by_slot` are its partitions."""

    def __init__(self, by_slot: Mapping[int, OwnedPartition]) -> None:
        self._by_slot = by_slot
        self.dirty: list[OwnedPartition] = []
        """The partitions whose slot is behind the log: they are published at the end of the pass."""
        self.has_effects = False
        self._effects = Effects()

    def take(self) -> Effects:
        """The effects since the last call."""
        effects, self._effects = self._effects, Effects()
        self.has_effects = False
        return effects

    def take_dirty(self) -> list[OwnedPartition]:
        dirty, self.dirty = self.dirty, []
        return dirty

    def touched(self, owned: OwnedPartition) -> None:
        """The log or the state of the partition has changed."""
        if not owned.is_dirty:
            owned.is_dirty = True
            self.dirty.append(owned)

    def remove_later(self, owned: OwnedPartition, effect: UnlinkFiles) -> None:
        self.has_effects = True
        self._effects.removals.append((owned, effect))

    def files_removed(self, slot: int) -> None:
        self.has_effects = True
        self._effects.removed.append(slot)

    def readable(self, owned: OwnedPartition) -> None:
        """Manifest requests have to wait no longer."""
        self.has_effects = True
        self._effects.readable.append(owned)

    def flush_ended(self) -> None:
        """A log was synced, or will not be."""
        self.has_effects = True
        self._effects.has_flush_ended = True

    def free_up_space(self, log_dir: int) -> None:
        """The directory is short of space: unlink removed files at once, and have cleaners check its partitions."""
        self.has_effects = True
        self._effects.short_dirs.append(log_dir)

    def full_dirs_changed(self) -> None:
        self.has_effects = True
        self._effects.has_full_dirs_changed = True

    def notify_controller(self, message: ControllerMessage) -> None:
        """Without a controller the message is dropped, as each new controller requests the state it requires."""
        self.has_effects = True
        self._effects.to_controller.append(message)

    # Failures.

    def failed(self, owned: OwnedPartition, error: Failure | CorruptBatch) -> None:
        """Take the partition offline, or its log directory if the disk fails."""
        match error:
            case StorageFailed():
                self.log_dir_failed(owned.log_dir, str(error))
            case CorruptBatch():
                self._take_offline(owned, f"its log is damaged: {error}")
            case FileNotFoundError():
                self._take_offline(owned, f"its files were removed: {error}")

    def log_dir_failed(self, log_dir: int, cause: str) -> None:
        """Requests for its partitions get KAFKA_STORAGE_ERROR from now on."""
        lost = [owned for owned in self._by_slot.values() if owned.log_dir == log_dir and owned.state != STATE_OFFLINE]
        for owned in lost:
            owned.state = STATE_OFFLINE
        self.has_effects = True
        self._effects.failed_dirs.append(FailedDirectory(log_dir, cause, lost))

    def _take_offline(self, owned: OwnedPartition, cause: str) -> None:
        if owned.log is None or not owned.is_online:
            # Deleted meanwhile, or offline already.
            return
        log.error("%s is offline until the broker is restarted: %s", owned.name, cause)
        owned.log.abandon()
        owned.log = None
        owned.state = STATE_OFFLINE
        self.touched(owned)
        self.has_effects = True
        self._effects.offline.append(owned)
