"""Partitions that wait to be loaded, and are deleted before their turn."""

import sys
from collections.abc import Callable
from pathlib import Path

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.core.log.settings import LogConfig
from kafkad.core.metrics.catalogue import BLOCK_WORDS, remaining_logs_index
from kafkad.core.partition_slot import PartitionSlot
from kafkad.core.types import TopicPartition
from kafkad.processes.worker.disks.recovery_read_ahead import RecoveryReadAhead
from kafkad.processes.worker.loading import DirectoryState, Loader
from kafkad.processes.worker.owned import OwnedPartition

_TOPIC_ID = bytes(range(16))


def _waiting(count: int, block: list[int] | None = None) -> tuple[Loader, list[OwnedPartition]]:
    loader = Loader(
        [DirectoryState(LogDirectory.offline(Path("/nowhere")), was_clean=False)],
        FileCache(16),
        producer_expiration_ms=1,
        failed=lambda _log_dir, _cause: None,
        block=block or [0] * BLOCK_WORDS,
        read_ahead=RecoveryReadAhead(1, 1),
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
    assert block[remaining_logs_index(0)] == 3
    loader.add(rows[0], LogConfig(), PartitionSlot())
    loader.discard(rows[1])
    loader.discard(rows[1])
    assert block[remaining_logs_index(0)] == 2
