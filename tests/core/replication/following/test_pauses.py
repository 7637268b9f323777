"""How soon does a follower ask again, after an answer that never came and after one that passes by itself?"""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.quotas.replication_quota import ReplicationQuota
from kafkad.core.replication.following.followed_partition import FollowedPartition
from kafkad.core.replication.following.leader_fetcher import LeaderFetcher
from kafkad.core.replication.following.requests import Fetched, FollowKind, FollowResult, OffsetListed, PartitionFetched
from kafkad.core.types import TopicPartition

TOPIC = b"t" * 16
BACKOFF_MS = 1_000
GROWING = [25, 50, 100, 200, 400, 800, 1_000, 1_000]


def a_partition(leader_epoch: int = 3) -> FollowedPartition:
    return FollowedPartition((TOPIC, 0), TopicPartition("t", 0), slot=0, short_id=1, owner=0, leader_epoch=leader_epoch)


@pytest.fixture
def fetcher() -> LeaderFetcher:
    """The first request is under way."""
    fetcher = LeaderFetcher(BACKOFF_MS, ReplicationQuota(num_samples=11, window_ms=1_000, now_ms=0))
    fetcher.follow(a_partition())
    describe(fetcher)
    assert fetcher.next_request(0) is not None
    return fetcher


def describe(fetcher: LeaderFetcher, leader_epoch: int = 3) -> None:
    assert fetcher.describe_orders(0)
    fetcher.order_completed(FollowResult(FollowKind.DESCRIBE, 0, 1, leader_epoch, 0, 10, 3, 0), 0)


def response(fetcher: LeaderFetcher, error: int, now_ms: int) -> None:
    fetcher.fetched(Fetched(0, 0, [PartitionFetched(TOPIC, 0, error, 10, 0, -1, -1, 0, 0)]), now_ms)


def pause_ms(fetcher: LeaderFetcher, now_ms: int) -> int:
    """The next request leaves after so long."""
    next_ms = fetcher.next_ms()
    assert next_ms is not None
    assert fetcher.next_request(next_ms - 1) is None
    assert fetcher.next_request(next_ms) is not None
    return next_ms - now_ms


def test_a_leader_that_does_not_answer_is_asked_less_and_less_often(fetcher: LeaderFetcher) -> None:
    pauses, now_ms = [], 0
    for _ in GROWING:
        fetcher.failed(now_ms)
        pauses.append(pause_ms(fetcher, now_ms))
        now_ms += pauses[-1]
    assert pauses == GROWING


def test_an_answer_makes_the_next_failure_the_first(fetcher: LeaderFetcher) -> None:
    fetcher.failed(0)
    assert pause_ms(fetcher, 0) == 25
    fetcher.failed(25)
    assert pause_ms(fetcher, 25) == 50
    response(fetcher, 0, 75)
    fetcher.order_completed(FollowResult(FollowKind.APPEND, 0, 1, 3, 0, 10, 3, 0), 75)
    assert fetcher.next_request(75) is not None
    fetcher.failed(75)
    assert pause_ms(fetcher, 75) == 25


def test_a_broker_that_does_not_know_yet_that_it_leads_is_asked_again_soon(fetcher: LeaderFetcher) -> None:
    pauses, now_ms = [], 0
    for _ in GROWING:
        response(fetcher, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
        pauses.append(pause_ms(fetcher, now_ms))
        now_ms += pauses[-1]
    assert pauses == GROWING


def test_a_leader_that_refuses_an_offset_which_it_has_is_asked_less_and_less_often(fetcher: LeaderFetcher) -> None:
    pauses, now_ms = [], 0
    for _ in GROWING:
        response(fetcher, ErrorCode.OFFSET_OUT_OF_RANGE, now_ms)
        for listed in (10, 0):
            assert fetcher.next_request(now_ms)
            orders = fetcher.offsets_listed([OffsetListed("t", 0, 0, listed)], now_ms)
        assert [(order.kind, order.offset) for _, order in orders] == [(FollowKind.TRUNCATE_TO_OFFSET, 10)]
        fetcher.order_completed(FollowResult(FollowKind.TRUNCATE_TO_OFFSET, 0, 1, 3, 0, 10, 3, 0), now_ms)
        pauses.append(pause_ms(fetcher, now_ms))
        now_ms += pauses[-1]
    assert pauses == GROWING


def test_another_leader_epoch_begins_with_short_pauses(fetcher: LeaderFetcher) -> None:
    response(fetcher, ErrorCode.UNKNOWN_LEADER_EPOCH, 0)
    assert pause_ms(fetcher, 0) == 25
    response(fetcher, ErrorCode.UNKNOWN_LEADER_EPOCH, 25)
    fetcher.follow(a_partition(4))
    describe(fetcher, 4)
    assert fetcher.next_request(25) is not None
    response(fetcher, ErrorCode.UNKNOWN_LEADER_EPOCH, 25)
    assert pause_ms(fetcher, 25) == 25


def test_an_error_that_does_not_pass_by_itself_costs_the_whole_pause(fetcher: LeaderFetcher) -> None:
    response(fetcher, ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert pause_ms(fetcher, 0) == BACKOFF_MS


def appended(fetcher: LeaderFetcher, end: int, error: int = 0) -> None:
    fetcher.order_completed(FollowResult(FollowKind.APPEND, 0, 1, 3, error, end, 3, 0), 0)


def test_a_partition_that_is_left_alone_is_counted_until_its_records_come_again(fetcher: LeaderFetcher) -> None:
    response(fetcher, ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert fetcher.failed_partitions == {(TOPIC, 0)}
    pause_ms(fetcher, 0)
    response(fetcher, 0, BACKOFF_MS)
    appended(fetcher, 10, ErrorCode.CORRUPT_MESSAGE)
    assert fetcher.failed_partitions == {(TOPIC, 0)}
    assert fetcher.next_request(BACKOFF_MS) is not None
    response(fetcher, 0, BACKOFF_MS)
    appended(fetcher, 10)
    assert fetcher.failed_partitions == set()


def test_what_passes_by_itself_is_no_failed_partition(fetcher: LeaderFetcher) -> None:
    response(fetcher, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert fetcher.failed_partitions == set()


def test_a_partition_that_is_not_followed_any_more_has_not_failed(fetcher: LeaderFetcher) -> None:
    response(fetcher, ErrorCode.KAFKA_STORAGE_ERROR, 0)
    fetcher.unfollow((TOPIC, 0))
    assert fetcher.failed_partitions == set()


def test_the_lag_is_what_is_committed_and_not_here_yet(fetcher: LeaderFetcher) -> None:
    assert fetcher.lag(0) == 0, "nothing is known yet"
    fetcher.fetched(Fetched(0, 0, [PartitionFetched(TOPIC, 0, 0, 50, 0, -1, -1, 0, 100)]), 0)
    appended(fetcher, 30)
    assert fetcher.lag(0) == 20
    assert fetcher.next_request(0) is not None
    fetcher.fetched(Fetched(0, 0, [PartitionFetched(TOPIC, 0, 0, 50, 0, -1, -1, 0, 100)]), 0)
    appended(fetcher, 60)
    assert fetcher.lag(0) == 0
