"""Look-ups that may have to wait for a disk are made by threads: the loop serves others and opens nothing."""

import errno
import os
import struct
from types import SimpleNamespace

import pytest

from kafkad.adapters.files import segment_files
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.reading.log_reader import SEGMENTS_A_STEP
from kafkad.handlers.requests.steps import ROWS_A_STEP
from kafkad.processes.network.logs.readers import LogHandle
from kafkad.processes.runtime import turns
from tests.processes.pieces import NETWORK, TOPIC, Client, Pieces
from tests.simulation.requests import fetch as session_fetch
from tests.simulation.requests import read_fetched as read_session
from tests.tools.raw_requests import (
    LIST_OFFSETS,
    api_versions,
    batch,
    fetch,
    framed,
    list_offsets,
    produce,
    read_fetched,
    read_produced,
)

SEGMENTS = SEGMENTS_A_STEP + 20


def _log(pieces: Pieces) -> PartitionLog:
    partition_log = pieces.worker.partitions.by_slot[pieces.slot()].log
    assert partition_log is not None
    return partition_log


def _many_segments(pieces: Pieces, client: Client) -> None:
    """A record in each, and one in the newest."""
    for number in range(SEGMENTS):
        assert read_produced(client.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0
        _log(pieces).roll(number + 1, 0)
    assert read_produced(client.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0
    pieces.settle()


def _handle(pieces: Pieces) -> LogHandle:
    return pieces.network.logs._handles[pieces.slot()]


def _is_whole(pieces: Pieces) -> bool:
    handle = pieces.network.logs._handles.get(pieces.slot())
    return handle is not None and handle.is_whole


def _offset(body: bytes) -> int:
    """The offset of the only partition of a ListOffsets answer, version 1."""
    (offset,) = struct.unpack(">q", body[-8:])
    assert isinstance(offset, int)
    return offset


def test_look_up_by_time_opens_no_segment_in_the_loop(pieces: Pieces) -> None:
    client = pieces.connect()
    _many_segments(pieces, client)
    pieces.network.logs.forget(pieces.slot())
    assert _offset(client.ask(list_offsets(TOPIC, 0, 2**41))) == -1
    assert len(_handle(pieces).reader.facts.max_timestamps) == SEGMENTS
    assert pieces.network.logs._files.open_count == 0


def test_others_are_served_between_the_steps_of_a_look_up(pieces: Pieces) -> None:
    searching, other = pieces.connect(), pieces.connect()
    _many_segments(pieces, searching)
    searching.send(list_offsets(TOPIC, 0, 2**41))
    for _ in range(3):
        assert other.ask(api_versions())
    assert searching.reply()


def test_client_that_goes_away_in_the_middle_of_its_look_up_leaves_nothing(pieces: Pieces) -> None:
    searching, other = pieces.connect(), pieces.connect()
    _many_segments(pieces, searching)
    searching.send(list_offsets(TOPIC, 0, 2**41))
    pieces.turn(NETWORK)
    pieces.clients.remove(searching)
    searching.sock.close()
    network = pieces.network
    pieces.run(lambda: not network._turns and len(pieces.network.clients) == 1, "the connection is gone")
    assert other.ask(api_versions())
    assert not network.request_handlers.responses._waiting_for_manifest


def _of_all_partitions(topic: str, partitions: int, timestamp: int) -> bytes:
    """ListOffsets 1."""
    rows = b"".join(struct.pack(">iq", number, timestamp) for number in range(partitions))
    body = struct.pack(">iih", -1, 1, len(topic)) + topic.encode() + struct.pack(">i", partitions) + rows
    return framed(LIST_OFFSETS, 1, body)


def test_request_about_many_partitions_gives_others_their_turn(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    # However fast this machine is: a pass is long enough for one step.
    monkeypatch.setattr(turns.Turns.work, "__defaults__", (0,))
    many = 3 * ROWS_A_STEP
    pieces.create_topic("many", many)
    pieces.run_until_online("many")
    pieces.run_until_known()
    asking, other = pieces.connect(), pieces.connect()
    asking.send(_of_all_partitions("many", many, -1))
    other.send(api_versions())
    pieces.run(lambda: other.replies, "the other is answered")
    assert asking.replies == []
    assert len(asking.reply()) == 4 + 2 + 4 + 4 + many * 22


def test_older_segment_is_looked_into_by_a_thread_before_it_is_sent(pieces: Pieces) -> None:
    client = pieces.connect()
    _many_segments(pieces, client)
    client.send(fetch({(TOPIC, 0): 5}))
    pieces.run(lambda: _is_whole(pieces), "the manifest is there")
    assert not _handle(pieces).reader._segments
    assert read_fetched(client.reply())[TOPIC, 0].records
    assert _handle(pieces).touched == {5}


def test_many_segments_read_one_after_another_leave_few_files_open(pieces: Pieces) -> None:
    client = pieces.connect()
    _many_segments(pieces, client)
    for offset in range(SEGMENTS):
        assert read_fetched(client.ask(fetch({(TOPIC, 0): offset})))[TOPIC, 0].records
    assert pieces.network.logs._files.open_count < SEGMENTS


class _ColdDisk:
    """Nothing is in memory for whoever does not wait."""

    def __init__(self) -> None:
        self.refused = 0

    def preadv(self, fd: int, buffers: list[bytearray], position: int, flags: int) -> int:
        self.refused += 1
        raise BlockingIOError(errno.EAGAIN, "it would have to wait")


def test_look_up_that_would_wait_for_the_disk_is_made_by_a_thread_first(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pieces.connect()
    _many_segments(pieces, client)
    cold = _ColdDisk()
    monkeypatch.setattr(segment_files, "os", SimpleNamespace(**{**vars(os), "preadv": cold.preadv}))
    for committed in (False, True):
        request = session_fetch(
            {(TOPIC, 0): SEGMENTS - 1}, 1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, committed=committed
        )
        pieces.network.logs.forget(pieces.slot())
        assert read_session(client.ask(request)).partitions[TOPIC, 0].records
    assert read_fetched(client.ask(fetch({(TOPIC, 0): SEGMENTS})))[TOPIC, 0].records
    assert cold.refused
    assert all(_handle(pieces).ahead.values())
