"""What is the lag of each group? Computed in steps between loop passes, when the reporter asks.

Log ends come from the slots, which the owners of the partitions publish.
"""

import time
from collections.abc import Callable, Iterator

from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.groups.shard import GroupShard
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.processes.coordinator_messages import GroupLags, pack_coordination

Row = tuple[str, int, int]


class Lags:
    """One answer at a time; a question that comes meanwhile gets the same one."""

    def __init__(
        self,
        coordinator_shards: CoordinatorShards,
        partitions: Partitions,
        table: PartitionTable,
        send: Callable[[ProcessKey, bytes], None],
    ) -> None:
        self._coordinator_shards = coordinator_shards
        self._partitions = partitions
        self._table = table
        self._send = send
        self._asking: set[ProcessKey] = set()
        self._rows: list[Row] = []
        self._steps: Iterator[Row] = iter(())

    @property
    def is_busy(self) -> bool:
        return bool(self._asking)

    def wanted(self, peer: ProcessKey) -> None:
        if not self._asking:
            self._rows, self._steps = [], self._measure()
        self._asking.add(peer)

    def work(self, budget_s: float) -> None:
        """Go on for about `budget_s`, and answer when all groups are done."""
        if not self._asking:
            return
        until = time.monotonic() + budget_s
        for row in self._steps:
            self._rows.append(row)
            if time.monotonic() >= until:
                return
        frame = pack_coordination(GroupLags(self._rows))
        asking, self._asking = self._asking, set()
        for peer in asking:
            self._send(peer, frame)

    def _measure(self) -> Iterator[Row]:
        for coordinator in self._coordinator_shards.serving():
            shard = coordinator.runtime.shard
            if isinstance(shard, GroupShard):
                for group_id in shard.groups.ids():
                    lag = shard.offsets.lag(group_id, self._end_of)
                    yield group_id, lag.max, lag.sum

    def _end_of(self, topic: str, partition: int) -> int | None:
        known = self._partitions.image.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        slot = known.partitions[partition].slot
        published = self._table.read(slot) if slot >= 0 else None
        return published.hw_offset if published is not None and published.topic_id == known.id.bytes else None
