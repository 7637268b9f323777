"""From which replica should a consumer read? (KIP-392, Kafka's RackAwareReplicaSelector)

The leader says so; followers serve whoever comes. In-sync replicas have all that a consumer may read, so what matters
is where they are.
"""

from collections.abc import Callable

from kafkad.core.controller.image import MetadataImage
from kafkad.core.partition_slot import ROLE_LEADER, PartitionSlot
from kafkad.core.sessions.fetch_session import NO_REPLICA, CachedPartition, FetchSession
from kafkad.handlers.partitions.partition_routes import TopicRoute


class RackAwareSelector:
    """One in the consumer's rack, if the leader is in another. `image` is the metadata of this moment."""

    def __init__(self, broker_id: int, image: Callable[[], MetadataImage]) -> None:
        self._broker_id = broker_id
        self._image = image

    def preferred(
        self, session: FetchSession, row: CachedPartition, published: PartitionSlot, route: TopicRoute | None
    ) -> int:
        """The replica, or NO_REPLICA: the consumer should go on here. Followers send no rack."""
        if not session.rack_id or published.role != ROLE_LEADER or row.fetch_offset > published.hw_offset:
            return NO_REPLICA
        image, partition = self._image(), row.key[1]
        topic = None if route is None else image.topics.get(route.name)
        if topic is None or partition >= len(topic.partitions):
            return NO_REPLICA
        brokers, in_sync = image.brokers, topic.partitions[partition].isr
        near = [each for each in in_sync if each in brokers and brokers[each].rack == session.rack_id]
        return NO_REPLICA if not near or self._broker_id in near else max(near)
