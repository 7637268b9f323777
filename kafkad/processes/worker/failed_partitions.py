"""What becomes of partitions when a disk, or somebody at it, takes their files away under the running worker?

A disk that fails takes its whole log directory offline. Files that were removed by hand cost their own partition
only: nothing is written to it any more, every reader hears KAFKA_STORAGE_ERROR, and the others go on. (Apache Kafka
gives the whole directory up at the next roll, and the broker with its last one.)
"""

import logging
from collections.abc import Callable

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.partition_slot import STATE_OFFLINE
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.processes.worker.owned import OwnedPartition

log = logging.getLogger(__name__)

Failure = StorageFailed | FileNotFoundError
FAILURES = (StorageFailed, FileNotFoundError)
"""What an open log raises when its files are not there or do not take what is written."""


NO_ROOM_AGAIN_MS = 60_000


def say_no_room(owned: OwnedPartition, what: str, error: NoSpaceLeft) -> None:
    """Once a minute for each partition: a full disk refuses all that comes, and may be where the lines go, too."""
    now_ms = monotonic_ms()
    if now_ms >= owned.no_room_due_ms:
        owned.no_room_due_ms = now_ms + NO_ROOM_AGAIN_MS
        log.error("%s: %s: %s", owned.name, what, error)


class Failing:
    """Decides who goes offline. `publish` writes a slot, `withdrawn` tells those who wait for the partition."""

    def __init__(
        self,
        log_dir_failed: Callable[[int, str], None],
        publish: Callable[[OwnedPartition], None],
        withdrawn: Callable[[OwnedPartition], None],
    ) -> None:
        self._log_dir_failed = log_dir_failed
        self._publish = publish
        self._withdrawn = withdrawn

    def failed(self, owned: OwnedPartition, error: Failure) -> None:
        if isinstance(error, StorageFailed):
            self._log_dir_failed(owned.log_dir, str(error))
        else:
            self._lose(owned, str(error))

    def look(self, owned: OwnedPartition) -> None:
        """A reader says that files are missing: see whether they are."""
        if owned.log is None:
            return
        try:
            missing = _missing(owned.log)
        except FAILURES as error:
            self.failed(owned, error)
            return
        if missing:
            self._lose(owned, f"there is no {', '.join(missing)}")

    def _lose(self, owned: OwnedPartition, cause: str) -> None:
        if owned.log is None or not owned.is_online:
            # It was deleted meanwhile, or is offline already.
            return
        log.error("%s is offline until the broker is started again, its files were removed: %s", owned.name, cause)
        owned.log.abandon()
        owned.log = None
        owned.state = STATE_OFFLINE
        self._publish(owned)
        self._withdrawn(owned)


def _missing(partition_log: PartitionLog) -> list[str]:
    there = partition_log.store.sizes()
    names = [file_name(base, LOG) for base in partition_log.segments.base_offsets]
    return [name for name in names if name not in there]
