"""A real broker on a real disk that is nearly full, and on one without a free byte. Needs root, to mount it.

Real, as several processes write to the same file system. What one worker does: tests/processes/worker/disks.
"""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from kafkad.core.errors import ErrorCode
from tests.daemon.group_client import GroupClient, patiently
from tests.daemon.served import Served
from tests.tools.raw_requests import (
    RawClient,
    batch,
    create_topic,
    delete_records,
    delete_topic,
    fetch,
    list_offsets,
    produce,
    read_fetched,
    read_produced,
)
from tests.tools.small_disk import SmallDisk

MB = 1 << 20
SIZE = 700_000
LEAST = 4 * MB
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
NONE = ErrorCode.NONE
SETTINGS = {
    "log.segment.bytes": str(MB),
    "kafkad.log.dirs.min.free.bytes": str(LEAST),
    # Half a minute by default, before checkpoints are written and before the cleaner is asked for room.
    "log.initial.task.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "num.io.threads": "1",
}

Serve = Callable[..., Served]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", 24 * MB) as disk:
        yield disk


@pytest.fixture
def serve(tmp_path: Path, disk: SmallDisk) -> Iterator[Serve]:
    """Starts a broker with these settings on the disk."""
    running: list[Served] = []

    def start(**settings: str) -> Served:
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        served = Served(tmp_path, {**SETTINGS, "log.dirs": str(disk.path), **overrides})
        running.append(served)
        return served.__enter__()

    yield start
    for served in running:
        served.__exit__(None, None, None)


def _write(client: RawClient, *, size: int = SIZE) -> int:
    return read_produced(client.ask(produce({("t", 0): batch(size=size)})))["t", 0].error


def _write_until_refused(client: RawClient) -> int:
    """Returns how many were taken."""
    for taken in range(100):
        error = _write(client)
        if error:
            assert error == STORAGE_ERROR
            return taken
    raise AssertionError("more was taken than the disk has room for")


def _records_from(client: RawClient, offset: int) -> int:
    """How many can be read; an answer ends with its segment."""
    first = offset
    while True:
        fetched = read_fetched(client.ask(fetch({("t", 0): offset})))["t", 0]
        assert fetched.error == 0
        if not fetched.records:
            return offset - first
        offset += len(fetched.records) // SIZE


def _log_start(client: RawClient) -> int:
    # ListOffsets 1 of the earliest offset: one topic, one partition, then error, timestamp and offset.
    return int.from_bytes(client.ask(list_offsets("t", 0, -2))[-8:], "big")


def test_nearly_full_disk_refuses_producers_and_serves_everybody_else(serve: Serve, disk: SmallDisk) -> None:
    served = serve()
    with served.connect() as client:
        taken = _write_until_refused(client)
        assert LEAST - 2 * MB < disk.free_bytes < LEAST
        body = client.ask(produce({("t", 0): batch()}, version=8))
        assert f"log directory {disk.path} has ".encode() in body
        assert b"producers can continue at 5120 KB" in body
        assert served.metric("kafkad_log_dir_free_bytes") < LEAST
        assert _records_from(client, 0) == taken
        with GroupClient(served.broker.port) as member:
            member.find("readers")
            assert patiently(lambda: member.commit("readers", {("t", 0): 3})) == NONE
        client.ask(delete_records("t", 0, taken))
        eventually(lambda: _write(client) == 0, what="clients can produce again")
        assert _log_start(client) == taken
    assert len(served.lines("less than kafkad.log.dirs.min.free.bytes")) == 1
    assert served.lines("has space again")


def test_retention_makes_room_at_once_and_deleted_files_do_not_wait(serve: Serve) -> None:
    """The next round of the cleaner is minutes away, and so is the end of file.delete.delay.ms. How often it is asked
    for room: tests/processes/worker/disks/test_disk_space.py.
    """
    served = serve(log_retention_bytes=str(2 * MB), log_segment_delete_delay_ms="600000")
    with served.connect() as client:
        _write_until_refused(client)
        eventually(lambda: _write(client) == 0, what="clients can produce again")


def test_topic_that_is_deleted_from_a_full_disk_makes_room_at_once(serve: Serve, disk: SmallDisk) -> None:
    served = serve(log_segment_delete_delay_ms="600000")
    with served.connect() as client:
        _write_until_refused(client)
        client.ask(delete_topic("t"))
        eventually(lambda: disk.free_bytes > 3 * LEAST, what="the room is free")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_broker_starts_without_one_free_byte_and_has_lost_nothing(
    serve: Serve, disk: SmallDisk, how: signal.Signals
) -> None:
    served = serve(log_flush_offset_checkpoint_interval_ms="3600000")
    with served.connect() as client:
        for _ in range(5):
            assert _write(client) == 0
        disk.fill()
        assert _write(client) == STORAGE_ERROR
        assert b"\x00\x00" in client.ask(delete_records("t", 0, 1))
    if how == signal.SIGKILL:
        served.broker.kill()
    else:
        served.broker.stop()
    served.broker.start()
    with served.connect() as client:
        assert _records_from(client, 1) == 4
        assert _write(client) == STORAGE_ERROR
        disk.free()
        eventually(lambda: _write(client) == 0, what="clients can produce again")
        assert _records_from(client, 1) == 5
    assert "offline" not in served.broker.output.read_text()


def test_log_start_survives_a_crash_on_a_full_disk(serve: Serve, disk: SmallDisk) -> None:
    """The checkpoint that has it finds the room that is kept for it."""
    served = serve(log_flush_start_offset_checkpoint_interval_ms="1000")
    with served.connect() as client:
        for _ in range(3):
            assert _write(client, size=100) == 0
        disk.fill()
        client.ask(delete_records("t", 0, 2))
        checkpoint = disk.path / "log-start-offset-checkpoint"
        eventually(
            lambda: checkpoint.exists() and "t 0 2" in checkpoint.read_text(),
            what="the checkpoint is written",
        )
    served.broker.kill()
    served.broker.start()
    with served.connect() as client:
        assert _log_start(client) == 2


@pytest.mark.parametrize("is_freed", [True, False])
def test_what_could_not_be_written_at_the_stop_is_made_anew_at_the_start(
    serve: Serve, disk: SmallDisk, is_freed: bool
) -> None:
    """There is no room for the snapshot of the producers, nor for the mark of a clean stop."""
    served = serve()
    last = b""
    with served.connect() as client:
        for sequence in range(5):
            last = batch(size=SIZE, producer_id=7, producer_epoch=0, base_sequence=sequence)
            assert read_produced(client.ask(produce({("t", 0): last})))["t", 0].error == NONE
        disk.fill()
    served.broker.stop()
    if is_freed:
        disk.free()
    served.broker.start()
    with served.connect() as client:
        assert _records_from(client, 0) == 5
        if not is_freed:
            assert _write(client) == STORAGE_ERROR
            disk.free()
        eventually(lambda: _write(client) == 0, what="clients can produce again")
        repeated = read_produced(client.ask(produce({("t", 0): last})))["t", 0]
        assert (repeated.error, repeated.base_offset) == (NONE, 4)
        assert _records_from(client, 0) == 6
    assert "offline" not in served.broker.output.read_text()


@pytest.mark.parametrize("is_first", [True, False])
def test_a_full_directory_refuses_its_own_partitions_only(
    serve: Serve, disk: SmallDisk, tmp_path: Path, is_first: bool
) -> None:
    """The first one also has what the controller stores."""
    roomy = tmp_path / "roomy"
    served = serve(log_dirs=",".join(map(str, (disk.path, roomy) if is_first else (roomy, disk.path))))
    with served.connect() as client:
        client.ask(create_topic("two", 4))

        def written(partition: int) -> int:
            return read_produced(client.ask(produce({("two", partition): batch(size=SIZE)})))["two", partition].error

        def is_written(partition: int) -> bool:
            return written(partition) == NONE

        placed: dict[bool, list[int]] = {True: [], False: []}
        for partition in range(4):
            eventually(partial(is_written, partition), what="the partition is led")
            placed[(disk.path / f"two-{partition}").exists()].append(partition)
        assert [len(each) for each in placed.values()] == [2, 2]
        disk.fill()
        eventually(
            lambda: [written(each) for each in placed[True]] == [STORAGE_ERROR] * 2,
            what="those on the full disk are refused",
        )
        for _ in range(20):
            assert [written(each) for each in placed[False]] == [NONE, NONE]
            assert [written(each) for each in placed[True]] == [STORAGE_ERROR, STORAGE_ERROR]
        for partition in range(4):
            assert read_fetched(client.ask(fetch({("two", partition): 0})))["two", partition].error == NONE
        disk.free()
        for partition in placed[True]:
            eventually(partial(is_written, partition), what="there is room again")
