"""Throttled partitions of a follower wait while they have moved too much; all others go on."""

from kafkad.core.quotas.replication_quota import ReplicationQuota
from kafkad.core.replication.following.followed_partition import FollowedPartition
from kafkad.core.replication.following.leader_fetcher import LeaderFetcher
from kafkad.core.replication.following.requests import (
    Fetched,
    FollowerFetch,
    FollowKind,
    FollowResult,
    PartitionFetched,
)
from kafkad.core.types import TopicPartition

THROTTLED, FREE = 0, 1
TOPIC = b"t" * 16


def a_partition(number: int, *, is_throttled: bool) -> FollowedPartition:
    name = TopicPartition("t", number)
    return FollowedPartition(
        (TOPIC, number), name, slot=number, short_id=1, owner=0, leader_epoch=3, is_throttled=is_throttled
    )


class World:
    """Two partitions, of which the first is throttled, with 1,000 bytes a second."""

    def __init__(self) -> None:
        self.quota = ReplicationQuota(num_samples=11, window_ms=1_000, now_ms=0)
        self.quota.rate = 1_000
        self.fetcher = LeaderFetcher(100, self.quota)
        for number in (THROTTLED, FREE):
            self.fetcher.follow(a_partition(number, is_throttled=number == THROTTLED))
        for _ in self.fetcher.describe_orders(0):
            pass
        for number in (THROTTLED, FREE):
            self.say(FollowKind.DESCRIBE, number, end=0)

    def say(self, kind: FollowKind, number: int, *, end: int) -> None:
        self.fetcher.order_completed(FollowResult(kind, number, 1, 3, 0, end, 3, 0), 0)

    def asked(self, now_ms: int) -> set[int]:
        """The partitions that the leader is asked for now; it makes no sessions."""
        wanted = self.fetcher.next_request(now_ms)
        if wanted is None:
            return set()
        assert isinstance(wanted, FollowerFetch)
        return {row.id[1] for row in wanted.partitions}

    def response(self, number: int, *, size: int, end: int, high_watermark: int, now_ms: int) -> None:
        row = PartitionFetched(TOPIC, number, 0, high_watermark, 0, -1, -1, 0, size)
        self.fetcher.fetched(Fetched(0, 0, [row]), now_ms)
        self.say(FollowKind.APPEND, number, end=end)


def test_a_partition_that_has_moved_too_much_waits_and_the_other_goes_on() -> None:
    world = World()
    assert world.asked(0) == {THROTTLED, FREE}
    answers = [
        PartitionFetched(TOPIC, THROTTLED, 0, 1_000, 0, -1, -1, 0, 50_000),
        PartitionFetched(TOPIC, FREE, 0, 1_000, 0, -1, -1, 0, 50_000),
    ]
    world.fetcher.fetched(Fetched(0, 0, answers), 0)
    world.say(FollowKind.APPEND, THROTTLED, end=10)
    world.say(FollowKind.APPEND, FREE, end=10)
    assert world.asked(1) == {FREE}
    world.fetcher.failed(1)
    # 50,000 bytes are 50 seconds' worth, but what is older than all windows is forgotten.
    assert world.fetcher.next_ms() is not None
    assert world.asked(12_500) == {THROTTLED, FREE}


def test_when_all_wait_the_next_look_is_soon_and_not_at_once() -> None:
    world = World()
    world.fetcher.unfollow((TOPIC, FREE))
    assert world.asked(0) == {THROTTLED}
    world.response(THROTTLED, size=50_000, end=10, high_watermark=1_000, now_ms=0)
    assert world.asked(1) == set()
    due = world.fetcher.next_ms()
    assert due is not None
    assert 1 < due <= 1_001


def test_one_in_sync_is_never_held_back_and_counts() -> None:
    world = World()
    world.fetcher.unfollow((TOPIC, FREE))
    assert world.asked(0) == {THROTTLED}
    world.response(THROTTLED, size=50_000, end=10, high_watermark=10, now_ms=0)
    assert world.quota.pause_ms(1) > 0
    assert world.asked(1) == {THROTTLED}


def test_a_topic_that_is_throttled_no_more_goes_on() -> None:
    world = World()
    world.fetcher.unfollow((TOPIC, FREE))
    assert world.asked(0) == {THROTTLED}
    world.response(THROTTLED, size=50_000, end=10, high_watermark=1_000, now_ms=0)
    assert world.asked(1) == set()
    world.fetcher.follow(a_partition(THROTTLED, is_throttled=False))
    assert world.asked(1_001) == {THROTTLED}
