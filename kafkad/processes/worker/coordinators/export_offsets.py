"""What have the groups of exports committed? Read from one shard after the other between loop passes, when a cleaner
asks.

Only the shards that serve are in the answer: the cleaner knows which are missing.
"""

import time
from collections.abc import Callable, Iterator

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.exported_offsets import EXPORT_GROUPS, Row
from kafkad.core.groups.shard import GroupShard
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.processes.coordinator_messages import ExportOffsets, pack_coordination


class ExportOffsetsAnswers:
    """One answer at a time; a question that comes meanwhile gets the same one."""

    def __init__(
        self,
        coordinator_shards: CoordinatorShards,
        partitions: Partitions,
        send: Callable[[ProcessKey, bytes], None],
    ) -> None:
        self._coordinator_shards = coordinator_shards
        self._partitions = partitions
        self._send = send
        self._asking: set[ProcessKey] = set()
        self._shards: list[int] = []
        self._rows: list[Row] = []
        self._steps: Iterator[int] = iter(())

    @property
    def is_busy(self) -> bool:
        return bool(self._asking)

    def wanted(self, peer: ProcessKey) -> None:
        if not self._asking:
            self._shards, self._rows, self._steps = [], [], self._read()
        self._asking.add(peer)

    def work(self, budget_s: float) -> None:
        """Go on for about `budget_s`, and answer when all shards are read."""
        if not self._asking:
            return
        until = time.monotonic() + budget_s
        for shard in self._steps:
            self._shards.append(shard)
            if time.monotonic() >= until:
                return
        frame = pack_coordination(ExportOffsets(self._shards, self._rows))
        asking, self._asking = self._asking, set()
        for peer in asking:
            self._send(peer, frame)

    def _read(self) -> Iterator[int]:
        for coordinator in self._coordinator_shards.serving():
            shard = coordinator.runtime.shard
            if not isinstance(shard, GroupShard):
                continue
            topics = self._partitions.image.topics
            for topic, partition, topic_id, offset in shard.offsets.committed_by(EXPORT_GROUPS):
                known = topics.get(topic)
                if known is not None and topic_id in (None, known.id):
                    self._rows.append((known.id, partition, offset))
            yield coordinator.owned.name.partition
