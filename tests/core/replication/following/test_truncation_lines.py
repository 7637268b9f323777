import pytest

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.partition_lines import Level
from kafkad.core.replication.following.following_log import planned_truncation
from kafkad.core.replication.following.requests import FollowKind, FollowOrder
from kafkad.core.replication.following.truncation_lines import truncation_event
from kafkad.core.types import TopicPartition
from tests.core.log.batches import append, batch, load
from tests.core.log.fake_store import FakeStore


@pytest.fixture
def log() -> PartitionLog:
    """Five records in leader epoch 0, two of them committed."""
    made = load(FakeStore())
    append(made, batch(2))
    append(made, batch(3))
    made.advance_high_watermark(2)
    return made


@pytest.mark.parametrize(
    ("kind", "offset", "level", "expected"),
    [
        (
            FollowKind.TRUNCATE,
            2,
            Level.INFO,
            "log truncated for t-0 from offset 5 to 2 (leader epoch 7, high watermark 2, diverging in leader epoch 0)",
        ),
        (
            FollowKind.TRUNCATE_TO_OFFSET,
            0,
            Level.ERROR,
            "log truncated below its high watermark for t-0 from offset 5 to 0 (leader epoch 7, high watermark 2)",
        ),
        (
            FollowKind.RESTART,
            9,
            Level.WARNING,
            "log truncated fully for t-0 from offset 5 to 9 (leader epoch 7, high watermark 2)",
        ),
    ],
)
def test_a_truncation_is_named_with_its_offsets(
    log: PartitionLog, kind: FollowKind, offset: int, level: Level, expected: str
) -> None:
    order = FollowOrder(kind, 0, 1, 7, offset, 0, 0, 2, 0, 0)
    event, subject = truncation_event(TopicPartition("t", 0), log, planned_truncation(log, order), order, 3)
    assert (event.level, f"{event.summary} {subject}") == (level, expected)
    assert "leader 3" in event.cause
