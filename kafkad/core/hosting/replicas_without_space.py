"""The partitions that this broker leaves to other leaders, because their log directory is full.

Apache Kafka takes such a directory offline, and its controller elects other leaders. Here the replicas stay: they serve
reads and continue to follow. Only LeaderAndIsr responses have the error of an offline directory, so that any controller
elects another in-sync replica, and may elect this one again after a response without the error. A partition without
another in-sync replica with space keeps its leader.
"""

from collections.abc import Container
from typing import NamedTuple

from kafkad.core.cluster.control_requests import LeaderAndIsrPartition
from kafkad.core.controller.image import NO_SLOT, MetadataImage, Partition
from kafkad.core.types import TopicPartition


class SpaceEvent(NamedTuple):
    """A change of which the controller does not know yet: a request makes it send LeaderAndIsr again."""

    left: frozenset[TopicPartition]
    """Another replica shall lead these partitions."""
    back: frozenset[TopicPartition]
    """This replica may lead these partitions again."""


_NOTHING = SpaceEvent(frozenset(), frozenset())


class ReplicasWithoutSpace:
    """`log_dirs` are full."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.log_dirs: frozenset[int] = frozenset()
        self._left: set[TopicPartition] = set()
        """The partitions whose last LeaderAndIsr response had KAFKA_STORAGE_ERROR."""
        self._seen: tuple[int, frozenset[int]] | None = None
        self._event = _NOTHING
        """The last event, until all LeaderAndIsr responses agree with it."""

    def leave(self, at: TopicPartition, row: Partition, state: LeaderAndIsrPartition, live: Container[int]) -> bool:
        """Whether the response to this state of the hosted `row` is KAFKA_STORAGE_ERROR."""
        leaves = self._leaves(at, row, state.leader, state.isr, live)
        if at in (self._event.back if leaves else self._event.left):
            self._event, self._seen = _NOTHING, None
        if leaves:
            self._left.add(at)
        else:
            self._left.discard(at)
        return leaves

    def may_have_left(self, image: MetadataImage) -> None:
        """Earlier responses are unknown: each replica counts as left until the next LeaderAndIsr."""
        self._left = set(_hosted(image))
        self._event, self._seen = _NOTHING, None

    def has_left(self, at: TopicPartition) -> bool:
        return at in self._left

    def _leaves(
        self, at: TopicPartition, row: Partition, leader: int, isr: tuple[int, ...], live: Container[int]
    ) -> bool:
        """Only a leader leaves; a follower stays left if it has left before."""
        if row.log_dir not in self.log_dirs or (leader != self._broker_id and at not in self._left):
            return False
        return any(each != self._broker_id and each in live and each not in row.offline for each in isr)

    def event(self, image: MetadataImage) -> SpaceEvent | None:
        """The changes for the controller since the last call; None: no change."""
        seen = image.version, self.log_dirs
        if seen == self._seen:
            return None
        self._seen = seen
        if not self.log_dirs and not self._left:
            self._event = _NOTHING
            return None
        hosted = _hosted(image)
        self._left.intersection_update(hosted)
        live = image.brokers.keys()
        leaving = frozenset(at for at, row in hosted.items() if self._leaves(at, row, row.leader, row.isr, live))
        event = SpaceEvent(leaving - self._left, frozenset(self._left - leaving))
        before, self._event = self._event, event
        return event if event != before and (event.left or event.back) else None


def _hosted(image: MetadataImage) -> dict[TopicPartition, Partition]:
    return {
        TopicPartition(topic.name, row.index): row
        for topic in image.topics.values()
        for row in topic.partitions
        if row.slot != NO_SLOT
    }
