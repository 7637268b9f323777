"""Takes partitions offline when a disk fails, or when files are removed or corrupted while the worker runs.

A failed disk takes its whole log directory offline. Files removed by hand take only their own partition offline: it is
not written any more, and readers get KAFKA_STORAGE_ERROR. (Apache Kafka takes the whole directory offline at the next
roll, and stops the broker with the last directory.) The same holds for corruption that prevents a follower from
truncating its log; other corruption fails only the reads of the corrupt records.
"""

import logging
from collections.abc import Callable

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.partition_slot import STATE_OFFLINE
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.processes.worker.owned import OwnedPartition

log = logging.getLogger(__name__)

Failure = StorageFailed | FileNotFoundError
FAILURES = (StorageFailed, FileNotFoundError)
"""The exceptions of an open log whose files are missing or cannot be written."""

NO_SPACE_LOG_MS = 60_000
_REMOVED = "its files were removed"


def log_no_space(owned: OwnedPartition, event: str, error: NoSpaceLeft) -> None:
    """Once a minute for each partition: with a full disk every append fails, and the broker's log may be on the same
    disk.
    """
    now_ms = monotonic_ms()
    if now_ms >= owned.no_space_due_ms:
        owned.no_space_due_ms = now_ms + NO_SPACE_LOG_MS
        log.error("%s: %s: %s", owned.name, event, error)


class FailedPartitions:
    """`publish` writes a slot, `withdrawn` completes the requests that wait for the partition."""

    def __init__(
        self,
        log_dir_failed: Callable[[int, str], None],
        publish: Callable[[OwnedPartition], None],
        withdrawn: Callable[[OwnedPartition], None],
    ) -> None:
        self._log_dir_failed = log_dir_failed
        self._publish = publish
        self._withdrawn = withdrawn

    def failed(self, owned: OwnedPartition, error: Failure | CorruptBatch) -> None:
        match error:
            case StorageFailed():
                self._log_dir_failed(owned.log_dir, str(error))
            case CorruptBatch():
                self._take_offline(owned, f"its log is damaged: {error}")
            case FileNotFoundError():
                self._take_offline(owned, f"{_REMOVED}: {error}")

    def check_files(self, owned: OwnedPartition) -> None:
        """A reader reports missing files: take the partition offline if files are missing."""
        if owned.log is None:
            return
        try:
            missing = _missing(owned.log)
        except FAILURES as error:
            self.failed(owned, error)
            return
        if missing:
            self._take_offline(owned, f"{_REMOVED}: there is no {', '.join(missing)}")

    def _take_offline(self, owned: OwnedPartition, cause: str) -> None:
        if owned.log is None or not owned.is_online:
            # Deleted meanwhile, or offline already.
            return
        log.error("%s is offline until the broker is restarted: %s", owned.name, cause)
        owned.log.abandon()
        owned.log = None
        owned.state = STATE_OFFLINE
        self._publish(owned)
        self._withdrawn(owned)


def _missing(partition_log: PartitionLog) -> list[str]:
    present = partition_log.store.sizes()
    names = [file_name(base, LOG) for base in partition_log.segments.base_offsets]
    return [name for name in names if name not in present]
