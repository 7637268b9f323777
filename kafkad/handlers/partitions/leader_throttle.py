"""Which followers of this broker's partitions get no records for now? (KIP-73: leader.replication.throttled.rate)"""

from collections.abc import Callable

from kafkad.core.controller.image import MetadataImage
from kafkad.core.quotas.replication_quota import LEADER_REPLICAS, ReplicaQuota, is_throttled
from kafkad.core.sessions.fetch_session import NO_REPLICA, CachedPartition, FetchSession
from kafkad.handlers.partitions.partition_routes import TopicRoute


class LeaderThrottle:
    """`image` is the metadata of this moment; times are those of `clock`, in milliseconds."""

    def __init__(
        self, quota: ReplicaQuota, broker_id: int, image: Callable[[], MetadataImage], clock: Callable[[], int]
    ) -> None:
        self._quota = quota
        self._broker_id = broker_id
        self._image = image
        self._clock = clock

    def holds_back(self, session: FetchSession, row: CachedPartition, route: TopicRoute | None) -> bool:
        """Whether a follower reads in the session that is out of sync, and has to wait."""
        if not self._is_throttled(session, row, route) or self._quota.pause_ms(self._clock()) == 0:
            return False
        assert route is not None, "a partition without a topic is not throttled"
        return session.replica_id not in self._image().topics[route.name].partitions[row.key[1]].isr

    def sent(self, session: FetchSession, row: CachedPartition, route: TopicRoute | None, size: int) -> None:
        """The session gets `size` bytes of records; those of followers count, in sync or not."""
        if self._is_throttled(session, row, route):
            self._quota.record(size, self._clock())

    def _is_throttled(self, session: FetchSession, row: CachedPartition, route: TopicRoute | None) -> bool:
        if self._quota.is_unlimited or session.replica_id == NO_REPLICA or route is None:
            return False
        topic = self._image().topics.get(route.name)
        return (
            topic is not None
            and row.key[1] < len(topic.partitions)
            and is_throttled(topic.configs, LEADER_REPLICAS, row.key[1], self._broker_id)
        )
