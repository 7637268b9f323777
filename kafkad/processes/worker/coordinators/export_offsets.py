"""The committed offsets of export groups, for cleaners: read from one shard after the other between loop passes.

The response has active shards only: the cleaner detects missing ones.
"""

from collections.abc import Generator

from kafkad.core.exported_offsets import EXPORT_GROUPS, Row
from kafkad.core.groups.shard import GroupShard
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.processes.coordinator_messages import ExportOffsets, pack_coordination


class ExportOffsetsReader:
    """The export groups in all shards of this worker."""

    def __init__(self, coordinator_shards: CoordinatorShards, partitions: Partitions) -> None:
        self._coordinator_shards = coordinator_shards
        self._partitions = partitions

    def steps(self) -> Generator[None, None, bytes]:
        """See `SharedResponse`: a step for each shard."""
        shards: list[int] = []
        rows: list[Row] = []
        for coordinator in self._coordinator_shards.serving():
            shard = coordinator.runtime.shard
            if not isinstance(shard, GroupShard):
                continue
            topics = self._partitions.image.topics
            for topic, partition, topic_id, offset in shard.offsets.committed_by(EXPORT_GROUPS):
                found = topics.get(topic)
                if found is not None and topic_id in (None, found.id):
                    rows.append((found.id, partition, offset))
            shards.append(coordinator.owned.name.partition)
            yield
        return pack_coordination(ExportOffsets(shards, rows))
