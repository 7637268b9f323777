"""Partitions that wait to be loaded, and are deleted before their turn."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.settings import LogConfig
from kafkad.core.metrics.catalogue import BLOCK_WORDS, REMAINING_LOGS, of_log_dir
from kafkad.core.partition_slot import PartitionSlot
from kafkad.core.types import TopicPartition
from kafkad.processes.worker.disks.recovery_read_ahead import RecoveryReadAhead
from kafkad.processes.worker.loading import DirectoryState, Loader
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.owned import OwnedPartition

_TOPIC_ID = bytes(range(16))


def _waiting(
    count: int,
    block: list[int] | None = None,
    directory: DirectoryState | None = None,
    read_ahead: RecoveryReadAhead | None = None,
) -> tuple[Loader, list[OwnedPartition]]:
    loader = Loader(
        [directory or DirectoryState(LogDirectory.offline(Path("/nowhere")), was_clean=False)],
        FileCache(16),
        producer_expiration_ms=1,
        outbox=Outbox({}),
        block=block or [0] * BLOCK_WORDS,
        read_ahead=read_ahead or RecoveryReadAhead(1, 1),
    )
    rows = [OwnedPartition(TopicPartition("t", at), at, _TOPIC_ID, 0, 0, 0) for at in range(count)]
    for owned in rows:
        loader.add(owned, LogConfig(), PartitionSlot())
    return loader, rows


def _steps(act: Callable[[], None]) -> int:
    """Functions that are called and generators that go on, while `act` runs."""
    count = 0

    def step(_frame: object, event: str, _value: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(step)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_partitions_that_are_deleted_while_they_wait_cost_no_look_at_all_others() -> None:
    """A topic of ten thousand partitions, deleted as soon as it was made, stopped its worker for seconds."""

    def discarding(count: int) -> int:
        loader, rows = _waiting(count)

        def act() -> None:
            for owned in rows:
                loader.discard(owned)

        steps = _steps(act)
        assert loader.is_idle
        return steps

    assert discarding(400) <= 4 * discarding(100) + 10


def test_partition_that_is_deleted_leaves_the_others_in_their_order() -> None:
    loader, rows = _waiting(3)
    loader.discard(rows[1])
    loader.discard(rows[1])
    assert loader.waiting == 2
    assert loader.progress == (0, 2000)


def test_the_logs_that_are_left_are_counted_by_directory() -> None:
    block = [0] * BLOCK_WORDS
    loader, rows = _waiting(3, block)
    assert block[of_log_dir(REMAINING_LOGS, 0)] == 3
    loader.add(rows[0], LogConfig(), PartitionSlot())
    loader.discard(rows[1])
    loader.discard(rows[1])
    assert block[of_log_dir(REMAINING_LOGS, 0)] == 2


@pytest.mark.parametrize(("size", "expected"), [(1_000_000, 3), (1_000, 0)])
def test_while_a_large_log_is_recovered_the_next_ones_are_read(tmp_path: Path, size: int, expected: int) -> None:
    read: list[Path] = []
    for at in range(4):
        (tmp_path / f"t-{at}").mkdir()
        records = b"".join(build_batch([NewRecord(1, None, bytes(size))], base_offset=each) for each in range(5))
        (tmp_path / f"t-{at}" / f"{0:020d}.log").write_bytes(records)
    directory = LogDirectory(tmp_path)
    read_ahead = RecoveryReadAhead(4, 1, lambda path, _recovery_point: read.append(path))
    loader, rows = _waiting(4, directory=DirectoryState(directory, was_clean=False), read_ahead=read_ahead)
    loaded: list[OwnedPartition] = []
    while loader.progress[0] == 0:
        loaded += loader.load(0.0001)
    eventually(lambda: len(read) == expected, what="the others are read")
    while not loader.is_idle:
        loaded += loader.load(1.0)
    assert loaded == rows
    assert all(owned.log is not None and owned.log.log_end_offset == 5 for owned in rows)
    assert len(read) == expected
    directory.close()
