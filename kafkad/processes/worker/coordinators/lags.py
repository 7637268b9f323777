"""The lags of groups, for the reporter: computed in steps between loop passes.

Log end offsets are read from the slots, which the owners of the partitions publish.
"""

from collections.abc import Generator

from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.core.groups.shard import GroupShard
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.processes.coordinator_messages import GroupLags, pack_coordination


class GroupLagsReader:
    """The groups in all shards of this worker."""

    def __init__(self, coordinator_shards: CoordinatorShards, partitions: Partitions, table: PartitionTable) -> None:
        self._coordinator_shards = coordinator_shards
        self._partitions = partitions
        self._table = table

    def steps(self) -> Generator[None, None, bytes]:
        """See `SharedResponse`: a step for each group."""
        rows: list[tuple[str, int, int]] = []
        for coordinator in self._coordinator_shards.serving():
            shard = coordinator.runtime.shard
            if isinstance(shard, GroupShard):
                for group_id in shard.groups.ids():
                    lag = shard.offsets.lag(group_id, self._end_of)
                    rows.append((group_id, lag.max, lag.sum))
                    yield
        return pack_coordination(GroupLags(rows))

    def _end_of(self, topic: str, partition: int) -> int | None:
        found = self._partitions.image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        slot = found.partitions[partition].slot
        published = self._table.read(slot) if slot >= 0 else None
        return published.hw_offset if published is not None and published.topic_id == found.id.bytes else None
