"""A leader fills its answer in the order of the request, so a follower changes the order: nobody starves."""

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

TOPIC = b"t" * 16


def _following(count: int) -> LeaderFetcher:
    fetcher = LeaderFetcher(100, ReplicationQuota(num_samples=11, window_ms=1_000, now_ms=0))
    for number in range(count):
        name = TopicPartition("t", number)
        fetcher.follow(FollowedPartition((TOPIC, number), name, slot=number, short_id=1, owner=0, leader_epoch=3))
    assert len(fetcher.describe_orders(0)) == count
    for number in range(count):
        fetcher.order_completed(FollowResult(FollowKind.DESCRIBE, number, 1, 3, 0, 0, 3, 0), 0)
    return fetcher


def _order(fetcher: LeaderFetcher) -> list[int]:
    wanted = fetcher.next_request(0)
    assert isinstance(wanted, FollowerFetch)
    return [row.id[1] for row in wanted.partitions]


def _fetch(fetcher: LeaderFetcher, sizes: list[int]) -> None:
    """An answer without a session, with so many bytes of records for each partition; its owner has appended it."""
    rows = [PartitionFetched(TOPIC, number, 0, 9, 0, -1, -1, 0, size) for number, size in enumerate(sizes)]
    for _, order in fetcher.fetched(Fetched(0, 0, rows), 0):
        fetcher.order_completed(FollowResult(FollowKind.APPEND, order.slot, 1, 3, 0, 1, 3, 0), 0)


def test_partitions_that_got_records_are_asked_for_after_all_others() -> None:
    fetcher = _following(4)
    assert _order(fetcher) == [0, 1, 2, 3]
    _fetch(fetcher, [100, 0, 100, 0])
    assert _order(fetcher) == [1, 3, 0, 2]
    _fetch(fetcher, [0, 100, 0, 0])
    assert _order(fetcher) == [3, 0, 2, 1]
    _fetch(fetcher, [0, 0, 0, 0])
    assert _order(fetcher) == [3, 0, 2, 1]
