"""A snapshot of all metrics, built from shared memory on request."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from kafkad.adapters.files.free_space import measure_free_space
from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.adapters.shared_memory.partition_table import BYTES_IN, MESSAGES_IN
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessState
from kafkad.core.controller.image import NO_SLOT, MetadataImage
from kafkad.core.controller.partition_rows import replication_factor
from kafkad.core.metrics.metric import MetricsSnapshot
from kafkad.core.metrics.partitions import PartitionReading
from kafkad.core.metrics.snapshot import BrokerReading, GroupLag, ProcessReading, SnapshotBuilder
from kafkad.core.ports import StorageFailed
from kafkad.core.types import FreeSpace
from kafkad.processes.runtime.child import SharedState
from kafkad.wire.api_table import APIS


class MetricsView:
    """The sources of a snapshot."""

    def __init__(self, shared: SharedState, log_dirs: Sequence[str], *, per_partition: bool) -> None:
        self._shared = shared
        self._log_dirs = log_dirs
        self._per_partition = per_partition
        self._builder = SnapshotBuilder({key: api.name for key, api in APIS.items()}, log_dirs)
        self.image = MetadataImage()
        self.group_lags: dict[ProcessKey, list[GroupLag]] = {}
        """The latest group metrics from each worker."""

    def snapshot(self) -> MetricsSnapshot:
        """The present metrics."""
        registry, counters = self._shared.registry, self._shared.counters
        return self._builder.build(
            BrokerReading(
                now_ns=time.monotonic_ns(),
                wall_ms=wall_clock_ms(),
                broker_state=registry.broker_state,
                processes=[
                    ProcessReading(key.role, key.index, registry.incarnation(key), counters.block(registry.slot(key)))
                    for key in registry.keys
                ],
                partitions=self._partitions(),
                per_partition=self._per_partition,
                group_lags=[row for rows in self.group_lags.values() for row in rows],
                free_space=self._free_space(),
                dead_cleaners=self._dead("cleaner"),
                dead_fetchers=self._dead("fetcher"),
            )
        )

    def _dead(self, role: str) -> int:
        registry = self._shared.registry
        return sum(registry.state(key) is ProcessState.DEAD for key in registry.role(role))

    def _free_space(self) -> dict[str, FreeSpace]:
        """The free space of each log directory, without those whose disk has failed."""
        free_space = {}
        for path in self._log_dirs:
            with suppress(StorageFailed, FileNotFoundError):
                free_space[path] = measure_free_space(path)
        return free_space

    def _partitions(self) -> Iterator[PartitionReading]:
        table = self._shared.table
        for topic in self.image.topics.values():
            for row in topic.partitions:
                if row.slot != NO_SLOT:
                    slot = row.slot
                    messages_in = table.traffic(slot, MESSAGES_IN)
                    bytes_in, bytes_out = table.traffic(slot, BYTES_IN), table.bytes_out(slot)
                    replicas, in_sync = replication_factor(row), len(row.isr)
                    yield PartitionReading(
                        topic.name,
                        table.read(slot),
                        messages_in,
                        bytes_in,
                        bytes_out,
                        replicas,
                        in_sync,
                        table.lag(slot),
                    )
