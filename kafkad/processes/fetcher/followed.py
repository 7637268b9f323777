"""Which partitions does this fetcher follow, and from whom? The metadata decides.

Partitions are spread over the fetchers by a hash of their names, as in Apache Kafka.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkad.core.controller.deltas import (
    BrokersChanged,
    MetadataDelta,
    PartitionsAdded,
    PartitionsChanged,
    Snapshot,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from kafkad.core.controller.image import NO_LEADER, NO_OWNER, NO_SLOT, MetadataImage, Partition, Topic
from kafkad.core.coordinator.partitioning import java_hash
from kafkad.core.quotas.replication_quota import FOLLOWER_REPLICAS, is_throttled
from kafkad.core.replication.following.followed_partition import FollowedPartition
from kafkad.core.replication.following.requests import PartitionId
from kafkad.core.types import TopicPartition
from kafkad.wire.processes.descriptors import short_topic_id

_SMALLEST = -(2**31)


def fetcher_of(topic: str, partition: int, fetchers: int) -> int:
    """`getFetcherId` of Apache Kafka, with Java's arithmetic of 32 bits."""
    number = (31 * java_hash(topic) + partition + 2**31) % 2**32 - 2**31
    return 0 if number == _SMALLEST else abs(number) % fetchers


class Followed(NamedTuple):
    """A partition and the broker that leads it; `leader` is NO_LEADER when it is not to be followed now."""

    id: PartitionId
    leader: int
    partition: FollowedPartition | None


class FollowedPartitions:
    """The share of fetcher `index` of `fetchers`."""

    def __init__(self, broker_id: int, index: int, fetchers: int) -> None:
        self._broker_id = broker_id
        self._index = index
        self._fetchers = fetchers
        self._known: dict[PartitionId, int] = {}
        """The leader of each partition that is followed."""

    def changes(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[Followed]:
        """What `delta` changes; `image` is the metadata after it."""
        for change in delta.changes:
            match change:
                case TopicCreated(topic):
                    yield from self._topic(topic, topic.partitions)
                case PartitionsAdded(name, partitions) | PartitionsChanged(name, partitions):
                    yield from self._topic(image.topics[name], partitions)
                case TopicConfigChanged(name, _) if name in image.topics:
                    yield from self._topic(image.topics[name], image.topics[name].partitions)
                case TopicDeleted(_, topic_id, _):
                    gone = [id for id in self._known if id[0] == topic_id.bytes]
                    yield from self._leave(gone)
                case Snapshot() | BrokersChanged():
                    yield from self._all(image)
                case _:
                    continue

    def _all(self, image: MetadataImage) -> Iterator[Followed]:
        ids = {topic.id.bytes for topic in image.topics.values()}
        yield from self._leave([id for id in self._known if id[0] not in ids])
        for topic in image.topics.values():
            yield from self._topic(topic, topic.partitions)

    def _leave(self, gone: Iterable[PartitionId]) -> Iterator[Followed]:
        for id in gone:
            del self._known[id]
            yield Followed(id, NO_LEADER, None)

    def _topic(self, topic: Topic, partitions: Iterable[Partition]) -> Iterator[Followed]:
        for row in partitions:
            id = topic.id.bytes, row.index
            if fetcher_of(topic.name, row.index, self._fetchers) != self._index:
                continue
            has_log = row.slot != NO_SLOT and row.owner != NO_OWNER and row.log_dir >= 0
            if not has_log or row.leader in (self._broker_id, NO_LEADER):
                if id in self._known:
                    yield from self._leave([id])
                continue
            self._known[id] = row.leader
            partition = FollowedPartition(
                id,
                TopicPartition(topic.name, row.index),
                slot=row.slot,
                short_id=short_topic_id(topic.id.bytes),
                owner=row.owner,
                leader_epoch=row.leader_epoch,
                is_throttled=is_throttled(topic.configs, FOLLOWER_REPLICAS, row.index, self._broker_id),
            )
            yield Followed(id, row.leader, partition)
