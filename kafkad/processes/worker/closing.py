"""The clean stop of a worker: sync and close every log, and publish its slot.

Most of the time is spent waiting for the disk, so threads sync several logs at a time.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.core.log.effects import FlushLog
from kafkad.core.log.partition_log import PartitionLog
from kafkad.processes.worker.outbox import FAILURES
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.slots import Slots

log = logging.getLogger(__name__)

THREADS = 8
AT_A_TIME = 64
"""Logs that are synced at the same time, with open files."""

_Row = tuple[OwnedPartition, PartitionLog]
_Synced = tuple[FlushLog, Future[None]]


def close_logs(
    partitions: Iterable[OwnedPartition],
    slots: Slots,
    closed: Callable[[int, int], None],
) -> bool:
    """True when all logs are on disk and none needs recovery. `closed` is called with the numbers of closed logs and
    of all logs.
    """
    rows: list[_Row] = []
    is_clean = True
    for owned in partitions:
        if owned.log is None:
            is_clean = is_clean and not owned.needs_recovery
        elif owned.is_online:
            rows.append((owned, owned.log))
        else:
            # Its directory has failed: nothing is written there, and a failed sync is not retried.
            owned.log.abandon()
    for first in range(0, len(rows), AT_A_TIME):
        closed(first, len(rows))
        for owned, error in _close(rows[first : first + AT_A_TIME]):
            if error is None:
                slots.publish(owned)
            else:
                log.error("cannot close the log of %s: %s", owned.name, error)
                is_clean = False
    return is_clean


def _close(rows: Sequence[_Row]) -> list[tuple[OwnedPartition, Exception | None]]:
    """Each partition with the error of its close, if any."""
    threads = HelperThreads(THREADS, "sync")
    syncing: list[_Synced | Exception | None] = []
    for _, partition_log in rows:
        try:
            effect = partition_log.complete()
            syncing.append((effect, threads.submit(effect.perform)) if effect is not None else None)
        except FAILURES as error:
            syncing.append(error)
    threads.close()
    return [
        (owned, _finish(partition_log, synced)) for (owned, partition_log), synced in zip(rows, syncing, strict=True)
    ]


def _finish(partition_log: PartitionLog, synced: "_Synced | Exception | None") -> Exception | None:
    if isinstance(synced, Exception):
        return synced
    if synced is not None:
        effect, future = synced
        try:
            future.result()
        except FAILURES as error:
            effect.release()
            return error
        partition_log.flushed(effect)
    partition_log.abandon()
    return None
