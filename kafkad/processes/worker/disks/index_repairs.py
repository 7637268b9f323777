"""Compares the indexes of a segment with its log when a look-up has found an entry wrong; makes them anew, in steps.

Readers that have found it wait for their manifest meanwhile; it then is of a generation with the new files.
"""

import logging
from collections.abc import Callable, Iterator

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.index_repair import repair_indexes
from kafkad.core.ports import NoSpaceLeft
from kafkad.processes.worker.failed_partitions import FAILURES, FailedPartitions, log_no_space
from kafkad.processes.worker.owned import OwnedPartition

log = logging.getLogger(__name__)


class IndexRepairs:
    """The segments that are being compared now; `touched` gets a partition of which a segment has new indexes."""

    def __init__(self, touched: Callable[[OwnedPartition], None], failed_partitions: FailedPartitions) -> None:
        self._touched = touched
        self._failed_partitions = failed_partitions
        self._under_way: set[tuple[OwnedPartition, int]] = set()

    def of_log(self, owned: OwnedPartition, partition_log: PartitionLog) -> Iterator[None]:
        """All segments of which the owner itself has found an index wrong."""
        for base in [each.base_offset for each in partition_log.segments if each.wrong_index]:
            if owned.log is partition_log:
                yield from self.steps(owned, base)

    def steps(self, owned: OwnedPartition, base_offset: int) -> Iterator[None]:
        """The steps of one segment; whoever comes second waits for the first."""
        key = (owned, base_offset)
        if key in self._under_way:
            while key in self._under_way:
                yield
            return
        self._under_way.add(key)
        try:
            yield from self._mend(owned, base_offset)
        except NoSpaceLeft as no_space:
            log_no_space(owned, "wrong indexes can't be made anew yet", no_space)
        except FAILURES as failure:
            self._failed_partitions.failed(owned, failure)
        finally:
            self._under_way.discard(key)

    def _mend(self, owned: OwnedPartition, base_offset: int) -> Iterator[None]:
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
                    self._touched(owned)
                    log.warning("%s: the indexes of a segment were built anew: %s", owned.name, finished.value)
                return
            yield
            # Sealed meanwhile: there is a last time entry now, for which another look is due.
            is_same = owned.log is partition_log and owned.is_online and partition_log.segments is segments
            if not is_same or partition_log.truncations != truncations or segments.floor(base_offset) is not segment:
                return
            if is_active and segment is not segments.active:
                return
