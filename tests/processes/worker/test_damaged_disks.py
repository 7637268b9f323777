"""Files of a partition that can't be read, or are damaged: one line, an error code, and the others go on."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode
from kafkad.core.log.recovery.checkpoints import parse_partition_metadata
from kafkad.core.log.segments.layout import LEADER_EPOCHS, LOG, PARTITION_METADATA, file_name
from kafkad.core.partition_slot import STATE_OFFLINE
from kafkad.wire.processes.controller_messages import LogDirFailed
from kafkad.wire.processes.descriptors import SegmentsRequest
from tests.processes.pieces import TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import batch, fetch, list_offsets, produce, read_fetched, read_produced

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
LONG_MS = 60_000
CLEANER = ProcessKey("cleaner", 0)


def _written(client: Client, partition: int = 0) -> int:
    return read_produced(client.ask(produce({(TOPIC, partition): batch()})))[TOPIC, partition].error


def _told(pieces: Pieces) -> list[LogDirFailed]:
    return [message for message in pieces.heard if isinstance(message, LogDirFailed)]


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[Pieces]:
    """A broker with one partition."""
    pieces = Pieces(tmp_path / "lonely", partitions=1)
    pieces.start()
    yield pieces
    pieces.close()


def test_a_log_directory_fails_although_nothing_else_is_in_it(lonely: Pieces) -> None:
    """The controller was told only of those with other partitions: new ones were put there."""
    client = lonely.connect()
    assert _written(client) == 0
    name = lonely.directory() / LEADER_EPOCHS
    name.unlink()
    name.mkdir()
    lonely.replace(WORKER)
    lonely.run(lambda: lonely.published().state == STATE_OFFLINE, "the partition is offline")
    lonely.run(lambda: _told(lonely), "the controller is told")
    (told,) = _told(lonely)
    assert LEADER_EPOCHS in told.cause
    assert _written(client) == STORAGE_ERROR


@pytest.mark.parametrize(
    "content",
    [b"", bytes(44), b"\xff" * 60, b"version: 0\ntopic_id: abc"],
    ids=["empty", "zeros", "garbage", "short"],
)
def test_a_damaged_topic_id_is_written_anew(pieces: Pieces, content: bytes) -> None:
    path = pieces.directory() / PARTITION_METADATA
    right = path.read_bytes()
    path.write_bytes(content)
    pieces.replace(WORKER)
    pieces.run_until_online()
    assert path.read_bytes() == right
    assert parse_partition_metadata(right.decode()).bytes == pieces.image.topics[TOPIC].id.bytes


def test_records_that_can_not_be_read_cost_those_who_read_them(
    pieces: Pieces, fail_reads: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    client = pieces.connect()
    assert [_written(client), _written(client), _written(client, 1)] == [0, 0, 0]
    fail_reads(pieces.directory())
    for _ in range(2):
        body = client.ask(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
        assert read_fetched(body)[TOPIC, 0].error == STORAGE_ERROR
    assert client.ask(list_offsets(TOPIC, 0, 1))[-18:-16] == STORAGE_ERROR.to_bytes(2, "big")
    assert read_fetched(client.ask(fetch({(TOPIC, 1): 0})))[TOPIC, 1].records
    assert sum("can't read" in record.getMessage() for record in caplog.records) == 1


def test_a_segment_that_was_cut_between_two_batches_is_named_once(
    pieces: Pieces, caplog: pytest.LogCaptureFixture
) -> None:
    client = pieces.connect()
    sizes = []
    for _ in range(2):
        for _ in range(3):
            assert _written(client) == 0
        partition_log = pieces.worker.partitions.by_slot[pieces.slot()].log
        assert partition_log is not None
        sizes.append(partition_log.segments.active.size)
        partition_log.roll(partition_log.log_end_offset, 0)
    os.truncate(pieces.directory() / file_name(0, LOG), sizes[0] * 2 // 3)
    pieces.replace(WORKER)
    pieces.run_until_online()
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    for _ in range(2):
        pieces.hand_over(CLEANER, SegmentsRequest(1, [(owned.slot, owned.short_id)]))
        while pieces.worker.partition_requests.is_busy:
            pieces.worker.partition_requests.tick()
    (line,) = [
        each.getMessage() for each in caplog.records if "the offsets in between are missing" in each.getMessage()
    ]
    assert line.startswith(f"{TOPIC}-0: {file_name(0, LOG)} ends before offset 2, and the next segment begins at 3: ")


def test_a_log_that_can_not_be_read_when_it_is_loaded_costs_its_log_directory(
    pieces: Pieces, fail_reads: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    client = pieces.connect()
    assert _written(client) == 0
    fail_reads(pieces.directory())
    pieces.replace(WORKER)
    pieces.run(lambda: _told(pieces), "the controller is told")
    assert os.strerror(errno.EIO) in _told(pieces)[0].cause
    assert _written(client) == STORAGE_ERROR
    assert sum("cannot load its log" in record.getMessage() for record in caplog.records) == 1
