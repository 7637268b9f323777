"""How far is each partition exported? The smallest offset that a group `kafkad-export-…` has committed for it.

The groups are spread over the partitions of `__consumer_offsets`: as long as one of these has not been heard of, a
group that is further behind may be unknown, and nothing is known about any partition.
"""

from collections.abc import Collection, Iterable
from uuid import UUID

from kafkad.core.cleanup import NO_EXPORT

EXPORT_GROUPS = "kafkad-export-"
"""The groups of exports begin so."""

PartitionKey = tuple[UUID, int]
Row = tuple[UUID, int, int]
"""Topic, partition, committed offset."""


class ExportedOffsets:
    """The latest answer of each worker; a worker answers for the partitions of `__consumer_offsets` that it serves."""

    def __init__(self) -> None:
        self._shards_of: dict[int, frozenset[int]] = {}
        self._offsets_of: dict[int, dict[PartitionKey, int]] = {}

    def heard(self, worker: int, shards: Collection[int], rows: Iterable[Row]) -> None:
        """`shards`: the partitions of `__consumer_offsets` whose groups are all in `rows`."""
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
        """Whether every partition of `__consumer_offsets` has been heard of; `shard_count` is how many there are."""
        return frozenset(range(shard_count)) <= frozenset().union(*self._shards_of.values())

    def of(self, topic_id: UUID, partition: int) -> int:
        """NO_EXPORT when no group has committed; the answers must be complete."""
        found = [offsets.get((topic_id, partition)) for offsets in self._offsets_of.values()]
        return min((offset for offset in found if offset is not None), default=NO_EXPORT)
