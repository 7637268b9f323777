"""Which partitions does this broker leave to other leaders, as their log directory has no room?

Apache Kafka takes such a directory offline, and its controller elects other leaders. Here the replicas stay: they are
read and go on following. Only the answers to LeaderAndIsr are those of an offline directory, so that any controller
elects another in-sync replica, and elects this one again after it has answered that there is room. A partition without
another in-sync replica that has room keeps its leader.
"""

from collections.abc import Container
from typing import NamedTuple

from kafkad.core.cluster.control_requests import LeaderAndIsrPartition
from kafkad.core.controller.image import NO_SLOT, MetadataImage, Partition
from kafkad.core.types import TopicPartition


class RoomEvent(NamedTuple):
    """What the controller does not know yet: it is told to send LeaderAndIsr once more."""

    left: frozenset[TopicPartition]
    """Another replica is to lead these."""
    back: frozenset[TopicPartition]
    """This replica may lead these again."""


_NOTHING = RoomEvent(frozenset(), frozenset())


class ReplicasWithoutRoom:
    """`log_dirs` have no room."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.log_dirs: frozenset[int] = frozenset()
        self._left: set[TopicPartition] = set()
        """Those of which the last answer to LeaderAndIsr was KAFKA_STORAGE_ERROR."""
        self._seen: tuple[int, frozenset[int]] | None = None
        self._event = _NOTHING
        """The last one, until all is answered as it says."""

    def leave(self, at: TopicPartition, row: Partition, state: LeaderAndIsrPartition, live: Container[int]) -> bool:
        """Whether the answer to this state of the hosted `row` is KAFKA_STORAGE_ERROR."""
        leaves = self._leaves(at, row, state.leader, state.isr, live)
        if at in (self._event.back if leaves else self._event.left):
            self._event, self._seen = _NOTHING, None
        if leaves:
            self._left.add(at)
        else:
            self._left.discard(at)
        return leaves

    def may_have_left(self, image: MetadataImage) -> None:
        """Nothing is known of former answers: each replica counts as left until LeaderAndIsr asks for it."""
        self._left = set(_hosted(image))
        self._event, self._seen = _NOTHING, None

    def has_left(self, at: TopicPartition) -> bool:
        return at in self._left

    def _leaves(
        self, at: TopicPartition, row: Partition, leader: int, isr: tuple[int, ...], live: Container[int]
    ) -> bool:
        """A follower goes on being none that may lead; one that was never asked to lead is as good as others."""
        if row.log_dir not in self.log_dirs or (leader != self._broker_id and at not in self._left):
            return False
        return any(each != self._broker_id and each in live and each not in row.offline for each in isr)

    def event(self, image: MetadataImage) -> RoomEvent | None:
        """What has changed for the controller since the last call; None: nothing."""
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
        wanted = frozenset(at for at, row in hosted.items() if self._leaves(at, row, row.leader, row.isr, live))
        event = RoomEvent(wanted - self._left, frozenset(self._left - wanted))
        before, self._event = self._event, event
        return event if event != before and (event.left or event.back) else None


def _hosted(image: MetadataImage) -> dict[TopicPartition, Partition]:
    return {
        TopicPartition(topic.name, row.index): row
        for topic in image.topics.values()
        for row in topic.partitions
        if row.slot != NO_SLOT
    }
