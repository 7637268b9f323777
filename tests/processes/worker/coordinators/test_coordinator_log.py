"""A coordinator's log as its runtime reads it: every batch, over segments and windows, also what comes meanwhile."""

from dataclasses import replace

import pytest

from kafkad.core.coordinator.shard import Moment
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.batch import CorruptBatch, read_header
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.processes.worker.coordinators import coordinator_log
from kafkad.processes.worker.coordinators.coordinator_log import CoordinatorPartition
from kafkad.processes.worker.outbox import Outbox
from tests.processes.pieces import Pieces

NOW = Moment(0, 1_700_000_000_000)


def partition_of(pieces: Pieces) -> CoordinatorPartition:
    return CoordinatorPartition(pieces.worker.partitions.by_slot[pieces.slot()], Outbox({}))


def batch_of(count: int, size: int = 10) -> bytearray:
    return bytearray(build_batch([NewRecord(NOW.wall_ms, b"k", bytes(size)) for _ in range(count)]))


def offsets(partition: CoordinatorPartition) -> list[int]:
    return [read_header(batch).base_offset for batch in partition.batches()]


def test_batches_come_back_in_their_order(pieces: Pieces) -> None:
    partition = partition_of(pieces)
    assert [partition.append(batch_of(count), NOW) for count in (1, 3, 2)] == [0, 1, 4]
    assert (offsets(partition), partition.log_end_offset) == ([0, 1, 4], 6)


@pytest.mark.parametrize("window", [61, 100, 150, 1000])
def test_windows_of_any_size_show_the_same(pieces: Pieces, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    partition = partition_of(pieces)
    for number in range(30):
        partition.append(batch_of(1, size=number * 7), NOW)
    monkeypatch.setattr(coordinator_log, "LOAD_BYTES", window)
    assert offsets(partition) == list(range(30))


def test_segments_follow_each_other(pieces: Pieces) -> None:
    partition = partition_of(pieces)
    log = partition.owned.log
    assert log is not None
    for number in range(9):
        partition.append(batch_of(1), NOW)
        if number % 3 == 2:
            log.roll(log.log_end_offset, NOW.wall_ms)
    assert len(log.segments) == 4
    assert offsets(partition) == list(range(9))


def test_what_is_appended_while_it_is_read_is_read_too(pieces: Pieces) -> None:
    partition = partition_of(pieces)
    log = partition.owned.log
    assert log is not None
    partition.append(batch_of(1), NOW)
    seen = []
    for batch in partition.batches():
        seen.append(read_header(batch).base_offset)
        if len(seen) == 1:
            partition.append(batch_of(1), NOW)
        elif len(seen) == 2:
            log.roll(log.log_end_offset, NOW.wall_ms)
            partition.append(batch_of(1), NOW)
    assert seen == [0, 1, 2]


def test_damage_is_named_with_its_place(pieces: Pieces) -> None:
    partition = partition_of(pieces)
    partition.append(batch_of(1), NOW)
    log = partition.owned.log
    assert log is not None
    end = log.segments.active.size
    log.segments.active.log.write_at([bytes(70)], end)
    log.segments.active.size = end + 70
    with pytest.raises(CorruptBatch, match=f"at byte {end}"):
        offsets(partition)


def test_a_batch_beyond_the_topics_limit_is_refused(pieces: Pieces) -> None:
    partition = partition_of(pieces)
    with pytest.raises(KafkaError) as refused:
        partition.append(batch_of(1, size=2 << 20), NOW)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert partition.log_end_offset == 0


def test_no_more_replicas_are_asked_for_than_there_are(pieces: Pieces) -> None:
    partition = partition_of(pieces)
    log = partition.owned.log
    assert log is not None
    log.update_config(replace(log.config, min_insync_replicas=2))
    assert partition.append(batch_of(1), NOW) == 0
    partition.owned.replicas = 3
    with pytest.raises(KafkaError) as refused:
        partition.append(batch_of(1), NOW)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_without_enough_replicas_nothing_is_written(pieces: Pieces) -> None:
    partition = partition_of(pieces)
    partition.owned.in_sync = 0
    with pytest.raises(KafkaError) as refused:
        partition.append(batch_of(1), NOW)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
