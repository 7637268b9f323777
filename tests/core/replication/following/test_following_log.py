"""What the owner of a followed log makes of an answer that begins before the end of the log."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.removal import truncate_fully_and_start_at
from kafkad.core.replication.following.following_log import append_fetched, begin_with_batch, follow_log_start
from kafkad.core.replication.following.requests import FollowKind, FollowOrder
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
