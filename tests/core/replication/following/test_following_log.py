"""What the owner of a followed log makes of an answer that begins before the end of the log."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.removal import truncate_fully_and_start_at
from kafkad.core.partition_lines import Level
from kafkad.core.replication.following.following_log import (
    append_fetched,
    begin_with_batch,
    follow_log_start,
    planned_truncation,
    truncation_event,
)
from kafkad.core.replication.following.requests import FollowKind, FollowOrder
from kafkad.core.types import TopicPartition
from tests.core.log.batches import NOW, append, batch, load
from tests.core.log.fake_store import FakeStore


def fetched(log: PartitionLog, records: memoryview, log_start: int) -> int:
    """The error of an append as the worker makes it."""
    order = FollowOrder(FollowKind.APPEND, 0, 1, 0, log.log_end_offset, 0, len(records), 5, log_start, -1)
    order, _ = begin_with_batch(log, order, records, NOW)
    error = append_fetched(log, order, records, NOW)
    follow_log_start(log, order)
    return error


def offsets(log: PartitionLog) -> tuple[int, int, int]:
    return log.log_start_offset, log.log_end_offset, log.high_watermark.offset


@pytest.fixture
def log() -> PartitionLog:
    """Empty; it begins where the leader's does, which is within a batch."""
    made = load(FakeStore())
    truncate_fully_and_start_at(made, 3, NOW)
    return made


def test_an_empty_log_begins_with_the_batch_that_its_start_is_in(log: PartitionLog) -> None:
    assert fetched(log, batch(5), 3) == ErrorCode.NONE
    assert offsets(log) == (3, 5, 5)
    assert [segment.base_offset for segment in log.segments] == [0]


@pytest.mark.parametrize("start", [-1, 8], ids=["a negative offset", "an offset behind"])
def test_a_batch_that_its_start_is_not_in_changes_nothing(log: PartitionLog, start: int) -> None:
    records = batch(2)
    records[:8] = start.to_bytes(8, "big", signed=True)
    fetched(log, records, 3)
    assert log.log_start_offset == 3
    assert [segment.base_offset for segment in log.segments] == [3]


def test_a_damaged_batch_changes_nothing(log: PartitionLog) -> None:
    records = batch(5)
    records[-1] ^= 1
    assert fetched(log, records, 3) == ErrorCode.CORRUPT_MESSAGE
    assert offsets(log) == (3, 3, 3)


def test_a_log_with_records_is_not_begun_anew() -> None:
    log = load(FakeStore())
    append(log, batch(3))
    assert fetched(log, batch(5), 0) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert offsets(log)[:2] == (0, 3)


@pytest.fixture
def behind_log() -> PartitionLog:
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
    behind_log: PartitionLog, kind: FollowKind, offset: int, level: Level, expected: str
) -> None:
    order = FollowOrder(kind, 0, 1, 7, offset, 0, 0, 2, 0, 0)
    event, subject = truncation_event(
        TopicPartition("t", 0), behind_log, planned_truncation(behind_log, order), order, 3
    )
    assert (event.level, f"{event.summary} {subject}") == (level, expected)
    assert "leader 3" in event.cause
