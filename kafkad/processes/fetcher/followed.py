"""The partitions that this fetcher follows, with their leaders, from the metadata.

Partitions are distributed over the fetchers by a hash of their names, as in Apache Kafka.
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
    """A partition and its leader; NO_LEADER to unfollow it."""

    id: PartitionId
    leader: int
    partition: FollowedPartition | None


class FollowedPartitions:
    """The share of fetcher `index` of `fetchers`."""

    def __init__(self, broker_id: int, index: int, fetchers: int) -> None:
        self._broker_id = broker_id
        self._index = index
        self._fetchers = fetchers
        self._leaders: dict[PartitionId, int] = {}
        """The leader of each followed partition."""

    def changes(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[Followed]:
        """The changes by `delta`; `image` is the metadata after it."""
        for change in delta.changes:
            match change:
                case TopicCreated(topic):
                    yield from self._topic(topic, topic.partitions)
                case PartitionsAdded(name, partitions) | PartitionsChanged(name, partitions):
                    yield from self._topic(image.topics[name], partitions)
                case TopicConfigChanged(name, _) if name in image.topics:
                    yield from self._topic(image.topics[name], image.topics[name].partitions)
                case TopicDeleted(_, topic_id, _):
                    removed = [id for id in self._leaders if id[0] == topic_id.bytes]
                    yield from self._unfollow(removed)
                case Snapshot() | BrokersChanged():
                    yield from self._all(image)
                case _:
                    continue

    def _all(self, image: MetadataImage) -> Iterator[Followed]:
        ids = {topic.id.bytes for topic in image.topics.values()}
        yield from self._unfollow([id for id in self._leaders if id[0] not in ids])
        for topic in image.topics.values():
            yield from self._topic(topic, topic.partitions)

    def _unfollow(self, removed: Iterable[PartitionId]) -> Iterator[Followed]:
        for id in removed:
            del self._leaders[id]
            yield Followed(id, NO_LEADER, None)

    def _topic(self, topic: Topic, partitions: Iterable[Partition]) -> Iterator[Followed]:
        for row in partitions:
            id = topic.id.bytes, row.index
            if fetcher_of(topic.name, row.index, self._fetchers) != self._index:
                continue
            has_log = row.slot != NO_SLOT and row.owner != NO_OWNER and row.log_dir >= 0
            if not has_log or row.leader in (self._broker_id, NO_LEADER):
                if id in self._leaders:
                    yield from self._unfollow([id])
                continue
            self._leaders[id] = row.leader
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
