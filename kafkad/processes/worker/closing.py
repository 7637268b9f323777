"""The end of a worker that was told to stop: every log is synced and closed, and its slot says so.

Waiting for the disk is nearly all of it, so several logs are waited for at a time, in threads; everything else is
done by the worker itself.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.core.log.effects import FlushLog
from kafkad.core.log.partition_log import PartitionLog
from kafkad.processes.worker.failed_partitions import FAILURES
from kafkad.processes.worker.owned import OwnedPartition

log = logging.getLogger(__name__)

THREADS = 8
AT_A_TIME = 64
"""So many logs have their files open for it, and they stay open until they are synced."""

_Row = tuple[OwnedPartition, PartitionLog]
_Synced = tuple[FlushLog, Future[None]]


def close_logs(
    partitions: Iterable[OwnedPartition],
    publish: Callable[[OwnedPartition], None],
    closed: Callable[[int, int], None],
) -> bool:
    """True when everything is on disk, and nothing there is still to be recovered. `closed` hears how many are closed,
    of how many."""
    rows: list[_Row] = []
    is_clean = True
    for owned in partitions:
        if owned.log is None:
            is_clean = is_clean and not owned.needs_recovery
        elif owned.is_online:
            rows.append((owned, owned.log))
        else:
            # Its directory has failed: nothing is written there any more, and no sync is tried again.
            owned.log.abandon()
    for first in range(0, len(rows), AT_A_TIME):
        closed(first, len(rows))
        for owned, error in _close(rows[first : first + AT_A_TIME]):
            if error is None:
                publish(owned)
            else:
                log.error("%s can't be closed: %s", owned.name, error)
                is_clean = False
    return is_clean


def _close(rows: Sequence[_Row]) -> list[tuple[OwnedPartition, Exception | None]]:
    """Each with what kept it from being closed."""
    threads = HelperThreads(THREADS, "sync")
    syncing: list[_Synced | Exception | None] = []
    for _, partition_log in rows:
        try:
            effect = partition_log.complete()
            syncing.append((effect, threads.submit(effect.perform)) if effect is not None else None)
        except FAILURES as error:
            syncing.append(error)
    threads.close()
    return [(owned, _finish(of, synced)) for (owned, of), synced in zip(rows, syncing, strict=True)]


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
