from kafkad.core.errors import ErrorCode
from kafkad.core.partition_lines import Level, PartitionLine, PartitionLines
from kafkad.core.replication.leading.isr_lines import add_isr_change
from kafkad.core.replication.leading.led_partition import CommittedPartitionState, FollowerProgress, LedPartition
from kafkad.core.types import TopicPartition

ALL = (1, 2, 3)


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
