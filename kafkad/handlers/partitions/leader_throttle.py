"""Throttles the followers of this broker's partitions (KIP-73: leader.replication.throttled.rate)."""

from collections.abc import Callable

from kafkad.core.controller.image import MetadataImage
from kafkad.core.quotas.replication_quota import LEADER_REPLICAS, ReplicaQuota, is_throttled
from kafkad.core.sessions.fetch_session import NO_REPLICA, CachedPartition, FetchSession
from kafkad.handlers.partitions.partition_routes import TopicRoute


class LeaderThrottle:
    """`image` returns the current metadata; `clock` returns milliseconds."""

    def __init__(
        self, quota: ReplicaQuota, broker_id: int, image: Callable[[], MetadataImage], clock: Callable[[], int]
    ) -> None:
        self._quota = quota
        self._broker_id = broker_id
        self._image = image
        self._clock = clock

    def must_throttle(self, session: FetchSession, row: CachedPartition, route: TopicRoute | None) -> bool:
        """Whether an out-of-sync follower fetches in the session and exceeds the quota."""
        if not self._is_throttled(session, row, route) or self._quota.pause_ms(self._clock()) == 0:
            return False
        assert route is not None, "a partition without a topic is not throttled"
        return session.replica_id not in self._image().topics[route.name].partitions[row.key[1]].isr

    def sent(self, session: FetchSession, row: CachedPartition, route: TopicRoute | None, size: int) -> None:
        """Count `size` bytes of records that the session gets, if it is a follower's, in sync or not."""
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
