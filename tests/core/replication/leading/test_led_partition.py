"""What is committed, who is in sync, and which changes of the ISR a leader asks for.

Of whole lives the fixed seeds are in `test_mutants`; random: `led_partition_lives`.
"""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.partition_lines import Level, PartitionLine, PartitionLines
from kafkad.core.replication.leading.led_partition import (
    REJOIN_MS,
    RETRY_MS,
    CommittedPartitionState,
    FollowerProgress,
    LedPartition,
    add_isr_change,
)
from kafkad.core.types import TopicPartition
from tests.amounts import seeds_of_tests
from tests.core.replication.leading.played_cluster import PlayedCluster

LAG_MS = 1_000
AT_ONCE = 50
ALL = (1, 2, 3)
STATE = CommittedPartitionState(5, 0, ALL, ALL)


def led(isr: tuple[int, ...] = ALL, *, log_end: int = 10, replicas: tuple[int, ...] = ALL) -> LedPartition:
    state = STATE._replace(isr=isr, replicas=replicas)
    return LedPartition(1, state, log_end=log_end, now_ms=0, max_lag_ms=LAG_MS)


def fetched(partition: LedPartition, replica: int, offset: int, *, at_ms: int = 0, log_end: int = 10) -> bool:
    return partition.fetched(FollowerProgress(5, replica, 7, offset, 0, at_ms), log_end)


def mark(partition: LedPartition, log_end: int = 10, *, min_isr: int = 1, now_ms: int = 0) -> int:
    return partition.high_watermark(log_end, min_isr, now_ms, ALL)


def test_a_new_leader_commits_nothing_until_all_in_sync_replicas_have_fetched() -> None:
    partition = led()
    assert mark(partition) == -1
    fetched(partition, 2, 10)
    assert mark(partition) == -1
    fetched(partition, 3, 8)
    assert mark(partition) == 8


def test_a_partition_with_one_replica_is_committed_to_its_end() -> None:
    partition = led((1,), replicas=(1,))
    assert mark(partition, min_isr=2) == 10


def test_nothing_is_committed_with_fewer_in_sync_replicas_than_the_minimum() -> None:
    partition = led((1, 2))
    fetched(partition, 2, 10)
    assert (mark(partition, min_isr=3), mark(partition, min_isr=2)) == (-1, 10)


def test_a_replica_outside_of_the_isr_counts_while_it_keeps_up() -> None:
    partition = led((1, 2))
    fetched(partition, 2, 10)
    fetched(partition, 3, 10)
    partition.appended(12, 500)
    fetched(partition, 2, 12, at_ms=500, log_end=12)
    assert mark(partition, 12, now_ms=600) == 10
    assert mark(partition, 12, now_ms=500 + LAG_MS + 1) == 12


def test_who_has_left_does_not_join_again_before_it_has_fetched() -> None:
    """It has all that is committed, as that waited for it: it may be dead."""
    partition = led()
    fetched(partition, 2, 10)
    fetched(partition, 3, 10)
    partition.appended(12, 1)
    fetched(partition, 2, 12, at_ms=2, log_end=12)
    late_ms = LAG_MS + 3
    assert partition.begin_isr_change(12, 10, late_ms, ALL) == (1, 2)
    partition.isr_change_completed(0, STATE._replace(partition_epoch=1, isr=(1, 2)), late_ms)
    assert partition.begin_isr_change(12, 10, late_ms, ALL) is None
    fetched(partition, 3, 11, at_ms=late_ms, log_end=12)
    assert partition.begin_isr_change(12, 10, late_ms, ALL) == (1, 2, 3)


def test_who_joins_slowly_has_its_time_before_it_leaves() -> None:
    """Below min.insync.replicas the high watermark stands still, so that who is far behind the log end may join."""
    partition = led((1,), replicas=(1, 2))
    partition.appended(1_000, 5 * LAG_MS)
    now_ms = changes = 0
    for step in range(200):
        now_ms = 5 * LAG_MS + 10 * step
        fetched(partition, 2, 10 + step, at_ms=now_ms, log_end=1_000 + step)
        isr = partition.begin_isr_change(1_000 + step, 10, now_ms, ALL)
        if isr is not None:
            changes += 1
            partition.isr_change_completed(0, CommittedPartitionState(5, changes, (), isr), now_ms)
    assert changes == 3, "it joins, has its time, leaves and joins again"
    assert partition.state.isr == (1, 2)
    partition.update(CommittedPartitionState(5, 4, (1, 2), (1,)), now_ms)
    partition.update(CommittedPartitionState(5, 5, (1, 2), (1, 2)), now_ms + LAG_MS)
    assert partition.begin_isr_change(1_200, 10, now_ms + 2 * LAG_MS, ALL) is None, "the metadata brought it in"


def test_who_joins_counts_from_the_wish_on_and_who_leaves_until_the_answer() -> None:
    partition = led((1, 2))
    fetched(partition, 2, 10)
    fetched(partition, 3, 10)
    assert partition.begin_isr_change(10, 10, 0, ALL) == (1, 2, 3)
    assert partition.maximal_isr == {1, 2, 3}
    partition.appended(12, 0)
    assert mark(partition, 12, now_ms=10 * LAG_MS) == 10
    partition.isr_change_completed(0, STATE._replace(partition_epoch=1), 0)
    fetched(partition, 2, 12, at_ms=10 * LAG_MS, log_end=12)
    assert partition.begin_isr_change(12, 10, 10 * LAG_MS, ALL) == (1, 2)
    assert mark(partition, 12, now_ms=10 * LAG_MS) == 10
    partition.isr_change_completed(0, CommittedPartitionState(5, 2, (), (1, 2)), 0)
    assert mark(partition, 12, now_ms=10 * LAG_MS) == 12


@pytest.mark.parametrize(
    ("progress", "log_end"),
    [
        (FollowerProgress(4, 2, 7, 10, 0, 0), 10),
        (FollowerProgress(6, 2, 7, 10, 0, 0), 10),
        (FollowerProgress(5, 9, 7, 10, 0, 0), 10),
        (FollowerProgress(5, 2, 7, 11, 0, 0), 10),
        (FollowerProgress(5, 1, 7, 10, 0, 0), 10),
    ],
    ids=["old epoch", "later epoch", "stranger", "beyond the end", "itself"],
)
def test_progress_that_does_not_match_is_dropped(progress: FollowerProgress, log_end: int) -> None:
    assert not led().fetched(progress, log_end)


def test_an_earlier_life_of_a_follower_is_dropped() -> None:
    partition = led()
    assert partition.fetched(FollowerProgress(5, 2, 8, 5, 0, 0), 10)
    assert not partition.fetched(FollowerProgress(5, 2, 7, 9, 0, 0), 10)
    assert partition.fetched(FollowerProgress(5, 2, -1, 6, 0, 0), 10), "versions before 15 do not say it"


def test_a_change_names_the_lives_of_the_brokers_whose_progress_was_counted() -> None:
    """It is asked for again with the same ones: the next life of a broker may have less."""
    partition = led((1, 2))
    partition.fetched(FollowerProgress(5, 3, 8, 10, 0, 0), 10)
    assert partition.begin_isr_change(10, 10, 0, ALL) == ALL
    assert partition.requested_epochs == (-1, -1, 8), "the second has not fetched, the leader says its own elsewhere"
    partition.fetched(FollowerProgress(5, 3, 9, 0, 0, 0), 10)
    partition.isr_change_completed(ErrorCode.UNKNOWN_SERVER_ERROR, STATE, 0)
    assert partition.begin_isr_change(10, 10, RETRY_MS, ALL) == ALL
    assert partition.requested_epochs == (-1, -1, 8)
    partition.isr_change_completed(ErrorCode.INELIGIBLE_REPLICA, STATE, RETRY_MS)
    assert partition.begin_isr_change(10, 10, RETRY_MS + REJOIN_MS, ALL) is None, "it begins anew"
    partition.fetched(FollowerProgress(5, 3, 9, 10, 0, 0), 10)
    assert partition.begin_isr_change(10, 10, RETRY_MS + REJOIN_MS, ALL) == ALL
    assert partition.requested_epochs == (-1, -1, 9)


def test_who_has_nothing_new_for_an_hour_is_in_sync() -> None:
    partition = led()
    fetched(partition, 2, 10)
    fetched(partition, 3, 10)
    hour = 3_600_000
    assert partition.begin_isr_change(10, 10, hour, ALL) is None
    assert partition.next_check_ms(10, hour) is None
    partition.appended(11, hour)
    assert partition.begin_isr_change(11, 10, hour + LAG_MS, ALL) is None
    assert partition.next_check_ms(11, hour) == hour + LAG_MS + 1
    assert partition.begin_isr_change(11, 10, hour + LAG_MS + 1, ALL) == (1,)


def test_a_follower_that_never_sees_the_end_of_a_growing_log_is_in_sync() -> None:
    partition = led()
    fetched(partition, 3, 10)
    for second in range(1, 10):
        end = 10 + 10 * second
        partition.appended(end, 900 * second)
        fetched(partition, 2, end - 5, at_ms=900 * second, log_end=end)
        fetched(partition, 3, end, at_ms=900 * second, log_end=end)
        assert partition.begin_isr_change(end, 10, 900 * second, ALL) is None


def test_who_lacks_committed_records_or_those_before_the_epoch_does_not_join() -> None:
    partition = led((1, 2))
    fetched(partition, 3, 9)
    assert partition.begin_isr_change(12, 5, 0, ALL) is None, "the leader epoch begins at 10"
    fetched(partition, 3, 11, log_end=12)
    assert partition.begin_isr_change(12, 12, 0, ALL) is None
    assert partition.begin_isr_change(12, 11, 0, (1, 2)) is None, "its broker is not there"
    assert partition.begin_isr_change(12, 11, 0, ALL) == (1, 2, 3)


def test_one_change_at_a_time_and_the_next_after_its_answer() -> None:
    partition = led((1,))
    fetched(partition, 2, 10)
    fetched(partition, 3, 10)
    assert partition.begin_isr_change(10, 10, 0, ALL) == (1, 2)
    assert partition.begin_isr_change(10, 10, 0, ALL) is None
    assert partition.isr_change_completed(0, CommittedPartitionState(5, 1, (), (1, 2)), 0)
    assert partition.begin_isr_change(10, 10, 0, ALL) == (1, 2, 3)


@pytest.mark.parametrize(
    ("code", "pause_ms"), [(ErrorCode.INELIGIBLE_REPLICA, REJOIN_MS), (ErrorCode.UNKNOWN_SERVER_ERROR, RETRY_MS)]
)
def test_a_refused_change_is_asked_for_again_after_a_pause(code: ErrorCode, pause_ms: int) -> None:
    partition = led((1, 2))
    fetched(partition, 2, 10)
    fetched(partition, 3, 10)
    partition.begin_isr_change(10, 10, 0, ALL)
    assert not partition.isr_change_completed(code, STATE._replace(partition_epoch=-1), 0), (
        "the refusal of an earlier change"
    )
    assert partition.next_check_ms(10, 0) is None
    partition.isr_change_completed(code, STATE, 0)
    assert partition.begin_isr_change(10, 10, pause_ms - 1, ALL) is None
    assert partition.next_check_ms(10, 0) == pause_ms
    assert partition.begin_isr_change(10, 10, pause_ms, ALL) == (1, 2, 3)


def test_a_refused_change_that_nobody_wants_any_more_is_not_waited_for() -> None:
    partition = led((1, 2))
    fetched(partition, 2, 10)
    fetched(partition, 3, 10)
    assert partition.begin_isr_change(10, 10, 0, ALL) == ALL
    partition.isr_change_completed(ErrorCode.INELIGIBLE_REPLICA, partition.state, 0)
    assert partition.next_check_ms(10, 0) == REJOIN_MS
    assert partition.begin_isr_change(10, 10, REJOIN_MS, (1, 2)) is None
    assert partition.next_check_ms(10, REJOIN_MS) is None
    assert partition.begin_isr_change(10, 10, REJOIN_MS + 1, ALL) == ALL


def test_a_change_of_an_old_state_waits_for_the_metadata() -> None:
    partition = led((1, 2))
    fetched(partition, 2, 10)
    fetched(partition, 3, 10)
    partition.begin_isr_change(10, 10, 0, ALL)
    partition.isr_change_completed(ErrorCode.INVALID_UPDATE_VERSION, STATE, 0)
    assert partition.begin_isr_change(10, 10, 10 * LAG_MS, ALL) is None
    assert partition.maximal_isr == {1, 2, 3}
    assert not partition.update(STATE, 0), "not newer"
    assert partition.update(CommittedPartitionState(5, 3, ALL, (1, 2)), 0)
    assert partition.begin_isr_change(10, 10, 0, ALL) == (1, 2, 3)


def test_the_low_watermark_waits_for_all_followers_that_live() -> None:
    partition = led()
    partition.fetched(FollowerProgress(5, 2, 7, 10, 4, 0), 10)
    assert partition.low_watermark(6, ALL) == -1
    partition.fetched(FollowerProgress(5, 3, 7, 10, 9, 0), 10)
    assert (partition.low_watermark(6, ALL), partition.low_watermark(6, (1, 3))) == (4, 6)


@pytest.mark.parametrize("names_epochs", [True, False])
@pytest.mark.parametrize("seeds", seeds_of_tests("led_partition_lives", AT_ONCE))
def test_nothing_committed_is_lost_whatever_happens(seeds: range, *, names_epochs: bool) -> None:
    changes = committed = 0
    for seed in seeds:
        cluster = PlayedCluster(seed, names_epochs=names_epochs)
        try:
            cluster.run(1_000)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        changes += cluster.changes
        committed += len(cluster.committed)
    assert changes > len(seeds)
    assert committed > 10 * len(seeds)


def change(isr: tuple[int, ...], wanted: tuple[int, ...], *, now_ms: int) -> list[PartitionLine]:
    """What is logged when the leader's wish is granted; replica 2 has everything, replica 3 ends at 4 of 10."""
    led = LedPartition(1, CommittedPartitionState(5, 1, ALL, isr), log_end=4, now_ms=0, max_lag_ms=30_000)
    for replica, offset in ((2, 10), (3, 4)):
        led.fetched(FollowerProgress(5, replica, 1, offset, 0, now_ms if replica == 2 else 0), 10)
    assert led.begin_isr_change(10, 4, now_ms, frozenset(ALL)) == wanted
    led.isr_change_completed(ErrorCode.NONE, CommittedPartitionState(5, 2, (), wanted), now_ms)
    lines = PartitionLines()
    add_isr_change(lines, TopicPartition("t", 0), isr, led, 10)
    return lines.take()


def test_who_left_is_named_with_how_far_behind_it_is() -> None:
    assert change((1, 2, 3), (1, 2), now_ms=40_000) == [
        (
            Level.WARNING,
            "ISR shrunk for t-0 from [1,2,3] to [1,2] (log end offset 10, replica 3 at 4): replica 3 is not caught up "
            "for 30 s (replica.lag.time.max.ms); a caught-up replica joins again",
        )
    ]


def test_who_joined_is_named() -> None:
    assert change((1, 2), (1, 2, 3), now_ms=0) == [
        (Level.INFO, "ISR expanded for t-0 from [1,2] to [1,2,3]: replica 3 is caught up")
    ]
