"""Checks the indexes of a segment after a lookup has found a corrupt entry, and rebuilds them, in steps.

Meanwhile the manifest requests of the readers that found it wait; their manifest has a generation with the new files.
"""

import logging
from collections.abc import Iterator

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.index_repair import repair_indexes
from kafkad.core.ports import NoSpaceLeft
from kafkad.processes.worker.outbox import FAILURES, Outbox, log_no_space
from kafkad.processes.worker.owned import OwnedPartition

log = logging.getLogger(__name__)


class IndexRepairs:
    """The segments that are being checked."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._running: set[tuple[OwnedPartition, int]] = set()

    def repair_log(self, owned: OwnedPartition, partition_log: PartitionLog) -> Iterator[None]:
        """All segments in which the owner itself has found a corrupt index."""
        for base in [each.base_offset for each in partition_log.segments if each.wrong_index]:
            if owned.log is partition_log:
                yield from self.repair(owned, base)

    def repair(self, owned: OwnedPartition, base_offset: int) -> Iterator[None]:
        """One segment; a second call for it waits for the first."""
        key = (owned, base_offset)
        if key in self._running:
            while key in self._running:
                yield
            return
        self._running.add(key)
        try:
            yield from self._repair(owned, base_offset)
        except NoSpaceLeft as no_space:
            log_no_space(owned, "cannot rebuild corrupt indexes yet", no_space)
        except FAILURES as failure:
            self._outbox.failed(owned, failure)
        finally:
            self._running.discard(key)

    def _repair(self, owned: OwnedPartition, base_offset: int) -> Iterator[None]:
        partition_log = owned.log
        if partition_log is None or not owned.is_online:
            return
        segments, truncations = partition_log.segments, partition_log.truncations
        segment = segments.floor(base_offset)
        if segment is None or segment.base_offset != base_offset or segment.is_index_checked:
            return
        is_active = segment is segments.active
        steps = repair_indexes(segment, partition_log.config.index_interval_bytes, is_active=is_active)
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                if finished.value:
                    partition_log.generation += 1
                    self._outbox.touched(owned)
                    log.warning("%s: rebuilt the corrupt indexes of a segment: %s", owned.name, finished.value)
                return
            yield
            # Sealed meanwhile: it has a last time index entry now, and needs another check.
            is_same = owned.log is partition_log and owned.is_online and partition_log.segments is segments
            if not is_same or partition_log.truncations != truncations or segments.floor(base_offset) is not segment:
                return
            if is_active and segment is not segments.active:
                return
