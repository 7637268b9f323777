"""Background work of a worker in threads: sync logs, remove files that no reader uses.

One thread at a time syncs a log; all requests during a sync share the next one. A failed sync takes its log directory
offline and is never retried. Without pending work no timer wakes the worker.
"""

import heapq
import logging
import os
from collections.abc import Callable, Container
from concurrent.futures import Future
from dataclasses import replace

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.process_registry import GraceMark, ProcessRegistry
from kafkad.core.log.effects import FlushLog, UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.removal import remove_files
from kafkad.core.metrics.catalogue import LOG_FLUSHES
from kafkad.core.ports import NoSpaceLeft, SegmentStore
from kafkad.processes.worker.outbox import FAILURES, Outbox, log_no_space
from kafkad.processes.worker.owned import OwnedPartition

log = logging.getLogger(__name__)

_Removal = tuple[int, int, OwnedPartition, UnlinkFiles, tuple[GraceMark, ...]]
RETRY_MS = 50
NO_SPACE_RETRY_MS = 1_000
"""When the file system has no space even to unlink a file."""
AT_A_TIME = 16
"""Files that are unlinked in one task: a stop waits for one task at most."""
SYNC_THREADS = 4
"""With `flush.messages` clients wait for syncs, so one slow file must not delay all partitions."""


class Upkeep:
    """Deferred work of one worker. `doorbell` becomes readable when a sync has finished.

    In `short` log directories, which lack space, removed files do not wait for file.delete.delay.ms.
    """

    def __init__(
        self,
        registry: ProcessRegistry,
        block: CounterBlock,
        outbox: Outbox,
        short: Container[int],
    ) -> None:
        self._registry = registry
        self._block = block
        self._outbox = outbox
        self._short = short
        self._threads = HelperThreads(SYNC_THREADS, "sync")
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._pending_syncs: dict[OwnedPartition, None] = {}
        """The partitions that wait for a sync, in order."""
        self._syncing: dict[Future[None], tuple[OwnedPartition, PartitionLog, FlushLog]] = {}
        self._directory_syncs: dict[Future[None], Callable[[Future[None]], None]] = {}
        """Running syncs of directories, with their callbacks."""
        self._is_closed = False
        self._remover = HelperThreads(1, "removal")
        self._removing: tuple[Future[None], _Removal] | None = None
        """The running removal: to unlink a fragmented file of a gigabyte takes a second."""
        self._removals: list[_Removal] = []
        self._sequence = 0

    @property
    def next_deadline_ms(self) -> int | None:
        return self._removals[0][0] if self._removals and self._removing is None else None

    def collect(self, owned: OwnedPartition) -> None:
        """Sync the partition's log, if a sync was requested."""
        if owned.log is not None and owned.log.is_flush_requested and not self._is_closed:
            self._pending_syncs[owned] = None
            self._begin_syncs()

    def _begin_syncs(self) -> None:
        while len(self._syncing) < SYNC_THREADS:
            busy = [owned for owned, _, _ in self._syncing.values()]
            owned = next((owned for owned in self._pending_syncs if owned not in busy), None)
            if owned is None:
                break
            del self._pending_syncs[owned]
            self._begin_sync(owned)

    def _begin_sync(self, owned: OwnedPartition) -> None:
        """The flush begins only now, so it includes all requests so far."""
        if owned.log is None or not owned.is_online:
            return
        try:
            effect = owned.log.take_flush()
        except FAILURES as error:
            self._outbox.failed(owned, error)
            return
        if effect is None:
            return
        future = self._threads.submit(effect.perform)
        self._syncing[future] = (owned, owned.log, effect)
        future.add_done_callback(self._ring)

    def sync_names(self, store: SegmentStore, then: Callable[[Future[None]], None]) -> None:
        """Sync the directory in a thread; the loop calls `then` with the outcome, unless the worker stops."""
        future = self._threads.submit(store.sync_directory)
        self._directory_syncs[future] = then
        future.add_done_callback(self._ring)

    def _ring(self, _done: object) -> None:
        """Called by a thread: wake the loop."""
        os.eventfd_write(self.doorbell, 1)

    def remove_later(self, owned: OwnedPartition, effect: UnlinkFiles) -> None:
        self._sequence += 1
        marks = self._registry.grace_marks()
        delay_ms = 0 if owned.log_dir in self._short else effect.delay_ms
        heapq.heappush(self._removals, (monotonic_ms() + delay_ms, self._sequence, owned, effect, marks))

    def skip_delays(self, log_dir: int) -> None:
        """The directory is short of space: unlink its removed files as soon as no reader is left."""
        self._removals = [(0 if row[2].log_dir == log_dir else row[0], *row[1:]) for row in self._removals]
        heapq.heapify(self._removals)

    def rung(self, _events: int) -> None:
        """A thread has finished: complete syncs and removals, and begin the next syncs."""
        os.eventfd_read(self.doorbell)
        self._complete_syncs()
        for future in [future for future in self._directory_syncs if future.done()]:
            self._directory_syncs.pop(future)(future)
        self._complete_removal()
        self._begin_syncs()

    def _complete_syncs(self) -> None:
        for future in [future for future in self._syncing if future.done()]:
            owned, synced_log, effect = self._syncing.pop(future)
            error = future.exception()
            if error is None and owned.log is synced_log and owned.is_online:
                self._block[LOG_FLUSHES] += 1
                synced_log.flushed(effect)
                self._outbox.flush_ended()
                self._outbox.touched(owned)
                continue
            effect.release()
            if isinstance(error, FAILURES):
                # After a move the old directory is renamed, and its syncs count for nothing (`relocate_to`).
                if owned.log is synced_log and synced_log.store is effect.store:
                    self._outbox.failed(owned, error)
            elif error is not None:
                raise error

    def remove_due(self, now_ms: int) -> None:
        """Unlink due files that no reader can be about to open."""
        while self._removals and self._removals[0][0] <= now_ms and self._removing is None:
            removal = heapq.heappop(self._removals)
            _due_ms, sequence, owned, effect, marks = removal
            if not self._registry.has_grace_ended(marks):
                heapq.heappush(self._removals, (now_ms + RETRY_MS, sequence, owned, effect, marks))
                break
            if owned.log is not None:
                batch = replace(effect, names=effect.names[:AT_A_TIME])
                future = self._remover.submit(remove_files, owned.log, batch)
                self._removing = future, removal
                future.add_done_callback(self._ring)

    def _complete_removal(self) -> None:
        if self._removing is None or not self._removing[0].done():
            return
        (future, (due_ms, sequence, owned, effect, marks)), self._removing = self._removing, None
        error = future.exception()
        rest = effect.names[AT_A_TIME:]
        if isinstance(error, NoSpaceLeft):
            log_no_space(owned, "cannot unlink removed files yet, retrying", error)
            heapq.heappush(self._removals, (monotonic_ms() + NO_SPACE_RETRY_MS, sequence, owned, effect, marks))
            return
        if isinstance(error, FAILURES):
            self._outbox.failed(owned, error)
        elif error is not None:
            raise error
        elif rest:
            heapq.heappush(self._removals, (due_ms, sequence, owned, replace(effect, names=rest), marks))
        self._outbox.files_removed(owned.slot)

    def close(self) -> None:
        """Wait for running syncs; the next start removes the remaining files."""
        self._is_closed = True
        self._pending_syncs.clear()
        self._threads.close()
        self._remover.close()
        self._complete_syncs()
        os.close(self.doorbell)
