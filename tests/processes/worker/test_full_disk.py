"""A full disk costs what does not fit on it, and nothing that is there already."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkad.adapters.files import atomic_write, file_cache, segment_files
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode
from kafkad.core.partition_slot import STATE_OFFLINE, STATE_ONLINE
from kafkad.processes.worker import loading, upkeep
from kafkad.wire.processes.controller_messages import LogDirFailed
from kafkad.wire.processes.descriptors import CleanupOrdered
from tests.processes.pieces import TOPIC, Client, Pieces
from tests.simulation.disk import SimulatedDisk, Trouble
from tests.simulation.scheduler import Scheduler
from tests.tools.raw_requests import batch, produce, read_produced

CLEANER = ProcessKey("cleaner", 0)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk(Scheduler(0))
    monkeypatch.setattr(segment_files, "os", disk)
    monkeypatch.setattr(file_cache, "os", disk)
    monkeypatch.setattr(atomic_write, "os", disk)
    yield disk


def _is_given_up(pieces: Pieces) -> bool:
    return any(isinstance(message, LogDirFailed) for message in pieces.heard)


def _data(pieces: Pieces) -> Path:
    return pieces.directory().parent


def _produced(pieces: Pieces, client: Client, partition: int = 0) -> int:
    end = pieces.published(partition=partition).leo_offset
    records = batch(producer_id=7, producer_epoch=0, base_sequence=end)
    return read_produced(client.ask(produce({(TOPIC, partition): records})))[TOPIC, partition].error


def test_cleaning_that_finds_no_room_is_tried_again_and_gives_nothing_up(
    disk: SimulatedDisk, pieces: Pieces, caplog: pytest.LogCaptureFixture
) -> None:
    """All of the log may go, so a new segment is begun first, and with it a snapshot of the producers."""
    client = pieces.connect()
    assert _produced(pieces, client) == 0
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    order = CleanupOrdered(owned.slot, owned.short_id, False, 0, 1, "a test")
    disk.trouble(_data(pieces), Trouble.FULL, free=0)
    for _ in range(3):
        pieces.hand_over(CLEANER, order)
        pieces.settle()
    assert sum("cleanup postponed" in line for line in caplog.messages) == 1
    assert (pieces.published().state, pieces.published().log_start) == (STATE_ONLINE, 0)
    assert not _is_given_up(pieces)
    disk.heal()
    pieces.hand_over(CLEANER, order)
    pieces.settle()
    assert pieces.published().log_start == 1
    assert _produced(pieces, client) == 0


def test_partition_that_does_not_fit_on_the_disk_is_the_only_one_that_is_offline(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(directory: Path, topic_id: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))

    client = pieces.connect()
    monkeypatch.setattr(loading, "write_partition_metadata", no_space)
    pieces.create_topic("late")
    pieces.run(lambda: pieces.published("late").state == STATE_OFFLINE, "the partition is given up")
    pieces.run_until_known()
    pieces.settle()
    assert not _is_given_up(pieces)
    assert _produced(pieces, client) == 0


def test_partition_is_loaded_as_soon_as_there_is_room_for_it(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = 0

    def no_space(directory: Path, topic_id: object) -> None:
        nonlocal tried
        tried += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))

    monkeypatch.setattr(loading, "RETRY_MS", 1)
    with monkeypatch.context() as full:
        full.setattr(loading, "write_partition_metadata", no_space)
        pieces.create_topic("late")
        pieces.run(lambda: pieces.published("late").state == STATE_OFFLINE and tried >= 3, "it is tried again")
    pieces.run(lambda: pieces.published("late").state == STATE_ONLINE, "the partition is loaded")
    (line,) = [each for each in caplog.messages if "late-0 is offline, cannot load its log" in each]
    assert "retrying" in line


def test_full_disk_is_said_once_for_a_partition_however_often_it_refuses(
    disk: SimulatedDisk, pieces: Pieces, caplog: pytest.LogCaptureFixture
) -> None:
    client = pieces.connect()
    assert _produced(pieces, client) == 0
    disk.trouble(_data(pieces), Trouble.FULL, free=0)
    assert [_produced(pieces, client) for _ in range(5)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 5
    lines = [each.getMessage() for each in caplog.records if "Produce rejected" in each.getMessage()]
    assert len(lines) == 1


def test_removed_files_wait_where_even_a_removal_needs_room(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file system that copies on write, or a quota: nothing is offline for that."""

    def refuse(_path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(upkeep, "NO_SPACE_RETRY_MS", 1)
    client = pieces.connect()
    assert _produced(pieces, client) == 0
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    owned.log.update_config(replace(owned.log.config, file_delete_delay_ms=0))  # type: ignore[union-attr]
    with monkeypatch.context() as full:
        full.setattr(os, "unlink", refuse)
        pieces.hand_over(CLEANER, CleanupOrdered(owned.slot, owned.short_id, False, 0, 1, "a test"))
        pieces.run(lambda: "cannot unlink removed files yet" in caplog.text, "the removal is put off")
    assert not _is_given_up(pieces)
    assert _produced(pieces, client) == 0
    pieces.run(lambda: not [*pieces.directory().glob("*.deleted")], "they are removed when there is room")
