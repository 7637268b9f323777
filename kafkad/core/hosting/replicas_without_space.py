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

    resigned: frozenset[TopicPartition]
    """Another replica shall lead these partitions."""
    regained: frozenset[TopicPartition]
    """This replica may lead these partitions again."""


_NOTHING = SpaceEvent(frozenset(), frozenset())


class ReplicasWithoutSpace:
    """`log_dirs` are full."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.log_dirs: frozenset[int] = frozenset()
        self._resigned: set[TopicPartition] = set()
        """The partitions whose last LeaderAndIsr response had KAFKA_STORAGE_ERROR."""
        self._seen: tuple[int, frozenset[int]] | None = None
        self._event = _NOTHING
        """The last event, until all LeaderAndIsr responses agree with it."""

    def resign(self, at: TopicPartition, row: Partition, state: LeaderAndIsrPartition, live: Container[int]) -> bool:
        """Whether the response to this state of the hosted `row` is KAFKA_STORAGE_ERROR."""
        resigns = self._resigns(at, row, state.leader, state.isr, live)
        if at in (self._event.regained if resigns else self._event.resigned):
            self._event, self._seen = _NOTHING, None
        if resigns:
            self._resigned.add(at)
        else:
            self._resigned.discard(at)
        return resigns

    def forget_responses(self, image: MetadataImage) -> None:
        """Earlier responses are unknown: each replica counts as resigned until the next LeaderAndIsr."""
        self._resigned = set(hosted_replicas(image))
        self._event, self._seen = _NOTHING, None

    def has_resigned(self, at: TopicPartition) -> bool:
        return at in self._resigned

    def _resigns(
        self, at: TopicPartition, row: Partition, leader: int, isr: tuple[int, ...], live: Container[int]
    ) -> bool:
        """Only a leader resigns; a follower stays resigned if it has resigned before."""
        if row.log_dir not in self.log_dirs or (leader != self._broker_id and at not in self._resigned):
            return False
        return any(each != self._broker_id and each in live and each not in row.offline for each in isr)

    def event(self, image: MetadataImage) -> SpaceEvent | None:
        """The changes for the controller since the last call; None: no change."""
        seen = image.version, self.log_dirs
        if seen == self._seen:
            return None
        self._seen = seen
        if not self.log_dirs and not self._resigned:
            self._event = _NOTHING
            return None
        hosted = hosted_replicas(image)
        self._resigned.intersection_update(hosted)
        live = image.brokers.keys()
        resigning = frozenset(at for at, row in hosted.items() if self._resigns(at, row, row.leader, row.isr, live))
        event = SpaceEvent(resigning - self._resigned, frozenset(self._resigned - resigning))
        before, self._event = self._event, event
        return event if event != before and (event.resigned or event.regained) else None


def hosted_replicas(image: MetadataImage) -> dict[TopicPartition, Partition]:
    """The rows of the partitions with a replica here."""
    return {
        TopicPartition(topic.name, row.index): row
        for topic in image.topics.values()
        for row in topic.partitions
        if row.slot != NO_SLOT
    }
