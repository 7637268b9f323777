"""The preferred read replica of each consumer, chosen by the replica selector plugin (KIP-392)."""

from collections.abc import Callable

from kafkad.core.controller.image import MetadataImage
from kafkad.core.partition_slot import ROLE_LEADER, PartitionSlot
from kafkad.core.replica_selector import ReplicaSelector, ReplicaView, select
from kafkad.core.sessions.fetch_session import NO_REPLICA, CachedPartition, FetchSession
from kafkad.core.types import BrokerId, TopicPartition
from kafkad.handlers.partitions.partition_routes import TopicRoute


class ReplicaSelection:
    """`image` returns the current metadata."""

    def __init__(self, selector: ReplicaSelector, broker_id: int, image: Callable[[], MetadataImage]) -> None:
        self._selector = selector
        self._broker_id = broker_id
        self._image = image

    def preferred(
        self, session: FetchSession, row: CachedPartition, published: PartitionSlot, route: TopicRoute | None
    ) -> int:
        """The preferred replica, or NO_REPLICA: the consumer continues here.

        Always NO_REPLICA for followers, and for consumers without KIP-392. Raises IllegalSelection.
        """
        if session.leader_only or published.role != ROLE_LEADER or row.fetch_offset > published.hw_offset:
            return NO_REPLICA
        image, partition = self._image(), row.key[1]
        topic = None if route is None else image.topics.get(route.name)
        if topic is None or partition >= len(topic.partitions):
            return NO_REPLICA
        brokers = image.brokers
        replicas = [
            ReplicaView(broker_id=BrokerId(each), rack=brokers[each].rack, is_leader=each == self._broker_id)
            for each in topic.partitions[partition].isr
            if each in brokers
        ]
        chosen = select(self._selector, TopicPartition(topic.name, partition), session.rack_id, replicas)
        return NO_REPLICA if chosen is None else chosen
