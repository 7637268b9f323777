"""The exported offset of each partition: the smallest offset that a group `kafkad-export-…` has committed.

The groups are spread over the partitions of `__consumer_offsets`. Until the rows of all of these partitions are
received, a group that is further behind may be missing, so all exported offsets are unknown.
"""

from collections.abc import Collection, Iterable
from uuid import UUID

from kafkad.core.cleanup import NO_EXPORT

EXPORT_GROUPS = "kafkad-export-"
"""The prefix of export groups."""

PartitionKey = tuple[UUID, int]
Row = tuple[UUID, int, int]
"""Topic, partition, committed offset."""


class ExportedOffsets:
    """The latest rows of each worker, for the partitions of `__consumer_offsets` that it serves."""

    def __init__(self) -> None:
        self._shards_of: dict[int, frozenset[int]] = {}
        self._offsets_of: dict[int, dict[PartitionKey, int]] = {}

    def update(self, worker: int, shards: Collection[int], rows: Iterable[Row]) -> None:
        """`shards` are the partitions of `__consumer_offsets` whose groups are all in `rows`."""
        smallest: dict[PartitionKey, int] = {}
        for topic_id, partition, offset in rows:
            key = topic_id, partition
            smallest[key] = min(offset, smallest.get(key, offset))
        self._shards_of[worker] = frozenset(shards)
        self._offsets_of[worker] = smallest

    def worker_ended(self, worker: int) -> None:
        self._shards_of.pop(worker, None)
        self._offsets_of.pop(worker, None)

    def is_complete(self, shard_count: int) -> bool:
        """Whether the rows of all `shard_count` partitions of `__consumer_offsets` are received."""
        return frozenset(range(shard_count)) <= frozenset().union(*self._shards_of.values())

    def of(self, topic_id: UUID, partition: int) -> int:
        """NO_EXPORT if no group has committed; only valid if `is_complete`."""
        found = [offsets.get((topic_id, partition)) for offsets in self._offsets_of.values()]
        return min((offset for offset in found if offset is not None), default=NO_EXPORT)
