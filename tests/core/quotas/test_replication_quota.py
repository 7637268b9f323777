import pytest

from kafkad.core.quotas.replication_quota import (
    LEADER_REPLICAS,
    MAX_PAUSE_MS,
    NO_LIMIT,
    ReplicationQuota,
    is_throttled,
    share_of_rate,
)


@pytest.mark.parametrize(
    ("named", "expected"),
    [("", False), ("*", True), ("0:1,3:2", True), ("3:1", False), ("3:21", False), ("13:2", False), ("0:1, 3:2", True)],
)
def test_a_replica_is_throttled_where_the_topic_names_it(named: str, expected: bool) -> None:
    assert is_throttled({LEADER_REPLICAS: named}, LEADER_REPLICAS, 3, 2) is expected


def test_a_topic_that_says_nothing_is_not_throttled() -> None:
    assert not is_throttled({}, LEADER_REPLICAS, 0, 1)


def a_quota(rate: int) -> ReplicationQuota:
    quota = ReplicationQuota(num_samples=11, window_ms=1_000, now_ms=0)
    quota.rate = rate
    return quota


def test_without_a_limit_nobody_pauses() -> None:
    quota = a_quota(NO_LIMIT)
    quota.record(10**12, 0)
    assert quota.pause_ms(0) == 0


def test_over_long_the_rate_is_the_limit() -> None:
    quota = a_quota(1_000_000)
    now_ms = moved = 0
    while now_ms < 60_000:
        pause_ms = quota.pause_ms(now_ms)
        assert 0 <= pause_ms <= MAX_PAUSE_MS
        if pause_ms == 0:
            quota.record(100_000, now_ms)
            moved += 100_000
        now_ms += pause_ms or 1
    # Eleven windows at once at the beginning, as in Apache Kafka: nothing was moved before.
    assert 60_000_000 <= moved <= 71_000_000


def test_a_rate_of_nothing_holds_back_for_ever() -> None:
    quota = a_quota(0)
    assert quota.pause_ms(0) == 0
    quota.record(1, 0)
    assert quota.pause_ms(1) == MAX_PAUSE_MS


def test_processes_share_a_rate() -> None:
    assert share_of_rate(10, 3) == 4
    assert share_of_rate(NO_LIMIT, 3) == NO_LIMIT
