"""Files that somebody removes under the running broker: their partition says so, once, and the others go on."""

import shutil
import struct

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.log.segments.layout import TIME_INDEX
from kafkad.core.partition_slot import STATE_OFFLINE, STATE_ONLINE
from tests.processes.pieces import TOPIC, Client, Pieces
from tests.tools.raw_requests import (
    batch,
    fetch,
    framed,
    list_offsets,
    produce,
    read_fetched,
    read_produced,
    text,
)

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
LONG_MS = 60_000


def _written(client: Client, partition: int = 0) -> int:
    return read_produced(client.ask(produce({(TOPIC, partition): batch()})))[TOPIC, partition].error


def _roll(pieces: Pieces) -> None:
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    assert owned.log is not None
    owned.log.roll(owned.log.log_end_offset, 0)
    pieces.worker.outbox.touched(owned)


@pytest.fixture
def client(pieces: Pieces) -> Client:
    """A connection to a broker with two segments in partition 0 and one in partition 1."""
    client = pieces.connect()
    assert [_written(client), _written(client, 1)] == [0, 0]
    _roll(pieces)
    assert _written(client) == 0
    return client


def _log_rate_limit(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if part in record.getMessage()]


def test_fetch_from_a_removed_directory_is_answered(
    pieces: Pieces, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(pieces.directory())
    for _ in range(3):
        body = client.ask(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
        assert read_fetched(body)[TOPIC, 0].error == STORAGE_ERROR
    assert pieces.published().state == STATE_OFFLINE
    assert len(_log_rate_limit(caplog, "its files were removed")) == 1


def test_look_up_in_a_removed_directory_is_answered(pieces: Pieces, client: Client) -> None:
    shutil.rmtree(pieces.directory())
    assert client.ask(list_offsets(TOPIC, 0, 1))[-18:-16] == STORAGE_ERROR.to_bytes(2, "big")


def test_partition_whose_files_are_gone_is_not_written_to_and_others_are(pieces: Pieces, client: Client) -> None:
    shutil.rmtree(pieces.directory())
    client.ask(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
    assert _written(client) == STORAGE_ERROR
    assert _written(client, 1) == 0
    assert read_fetched(client.ask(fetch({(TOPIC, 1): 0})))[TOPIC, 1].records


def test_roll_in_a_removed_directory_costs_the_partition_and_not_the_worker(
    make_pieces: object, caplog: pytest.LogCaptureFixture
) -> None:
    pieces: Pieces = make_pieces(log_segment_bytes=str(1 << 20))  # type: ignore[operator]
    client = pieces.connect()
    large = batch(size=700_000)
    assert read_produced(client.ask(produce({(TOPIC, 0): large})))[TOPIC, 0].error == 0
    shutil.rmtree(pieces.directory())
    assert read_produced(client.ask(produce({(TOPIC, 0): large})))[TOPIC, 0].error == STORAGE_ERROR
    assert _written(client, 1) == 0
    assert len(_log_rate_limit(caplog, "its files were removed")) == 1


def test_files_that_only_the_reader_misses_are_asked_for_once_more_and_given_up(
    pieces: Pieces, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner has what it needs: it names the same files again, and the reader must not ask for ever."""
    for index in pieces.directory().glob(f"*{TIME_INDEX}"):
        index.unlink()
    for _ in range(2):
        assert client.ask(list_offsets(TOPIC, 0, 1))[-18:-16] == STORAGE_ERROR.to_bytes(2, "big")
    assert pieces.published().state == STATE_ONLINE
    assert len(_log_rate_limit(caplog, "can't read")) == 1
    assert read_fetched(client.ask(fetch({(TOPIC, 0): 0})))[TOPIC, 0].records


def _epoch_end(client: Client) -> tuple[int, int]:
    """(error code, end offset) of epoch 0 by OffsetForLeaderEpoch 2, which looks into no record."""
    row = struct.pack(">iiii", 1, 0, -1, 0)
    body = client.ask(framed(23, 2, struct.pack(">i", 1) + text(TOPIC) + row))
    error, _, _, end_offset = struct.unpack(">hiiq", body[-18:])
    return error, end_offset


def test_where_an_epoch_ends_is_known_without_the_damaged_file(pieces: Pieces, client: Client) -> None:
    for file in pieces.directory().glob("*.log"):
        file.write_bytes(b"\xff" * file.stat().st_size)
    assert _epoch_end(client) == (0, 2)
    shutil.rmtree(pieces.directory())
    client.ask(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
    assert _epoch_end(client) == (STORAGE_ERROR, -1)
