"""Fetches about very many partitions: made in many small steps, and as right as any other."""

import socket
import struct
from functools import partial

import pytest

from kafkad.processes.network.fetch_requests import AT_ONCE, IN_PROGRESS_BYTES
from kafkad.processes.runtime.turns import Turns
from tests.processes.pieces import TOPIC, Client, Pieces
from tests.simulation.requests import FetchReply, Partition, fetch, read_fetched
from tests.tools.raw_requests import batch, produce, read_produced

UNKNOWN_TOPIC, EPOCH_IS_WRONG = 3, 71
ROWS = 5_000
MANY = AT_ONCE + 300
LONG_MS = 60_000


@pytest.fixture
def paced(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Pieces:
    """One step a pass, so that steps can be counted and stopped in between."""
    turns = pieces.network._turns
    monkeypatch.setattr(turns, "work", partial(Turns.work, turns, 0.0))
    return pieces


def _request(
    offsets: dict[Partition, int], *, wait_ms: int = 0, session: int = 0, epoch: int = 0, min_bytes: int = 1
) -> bytes:
    return fetch(offsets, 1, max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=1 << 20, session=session, epoch=epoch)


def _unknown(rows: int) -> dict[Partition, int]:
    return {(f"none-{number}", 0): 0 for number in range(rows)}


def _passes(pieces: Pieces, client: Client) -> int:
    passes = 0
    while not client.replies:
        pieces.turn()
        passes += 1
    return passes


def _write(client: Client, partition: int) -> None:
    assert read_produced(client.ask(produce({("many", partition): batch()})))["many", partition].error == 0


def _many(pieces: Pieces) -> dict[Partition, int]:
    pieces.create_topic("many", MANY)
    pieces.run_until_online("many")
    pieces.run_until_known()
    return {("many", partition): 0 for partition in range(MANY)}


def _opened(pieces: Pieces, client: Client, offsets: dict[Partition, int]) -> int:
    reply = read_fetched(client.ask(_request(offsets)))
    assert reply.session
    assert len(reply.partitions) == len(offsets)
    return reply.session


def _reply(client: Client) -> FetchReply:
    return read_fetched(client.reply())


def test_fetch_of_thousands_of_rows_takes_many_passes_and_others_are_answered_between(paced: Pieces) -> None:
    large, small = paced.connect(), paced.connect()
    large.send(_request(_unknown(ROWS)))
    asked = 0
    while not large.replies:
        assert read_fetched(small.ask(_request({(TOPIC, 0): 0}, epoch=-1))).error == 0
        asked += 1
    assert asked > ROWS // AT_ONCE
    reply = _reply(large)
    assert {row.error for row in reply.partitions.values()} == {UNKNOWN_TOPIC}
    assert len(reply.partitions) == ROWS


def test_session_of_thousands_of_rows_goes_on_in_steps(paced: Pieces) -> None:
    client = paced.connect()
    session = _opened(paced, client, _unknown(ROWS))
    client.send(_request({}, session=session, epoch=1))
    assert _passes(paced, client) > ROWS // AT_ONCE
    assert len(_reply(client).partitions) == ROWS


def test_incremental_request_with_thousands_of_rows_changes_its_session(paced: Pieces) -> None:
    client, other = paced.connect(), paced.connect()
    session = _opened(paced, client, {(TOPIC, 0): 0})
    client.send(_request(_unknown(ROWS), session=session, epoch=1))
    assert _passes(paced, client) > ROWS // AT_ONCE
    assert len(_reply(client).partitions) == ROWS
    late = read_fetched(other.ask(_request(_unknown(ROWS), session=session, epoch=1)))
    assert (late.error, late.partitions) == (EPOCH_IS_WRONG, {})


def test_large_fetch_that_waits_is_woken_by_one_of_its_partitions(paced: Pieces) -> None:
    offsets = _many(paced)
    reader, writer = paced.connect(), paced.connect()
    reader.send(_request(offsets, wait_ms=LONG_MS))
    paced.run(lambda: len(paced.network.request_handlers.fetch.watches._watched) == MANY, "all are watched")
    paced.settle()
    assert reader.replies == []
    _write(writer, MANY - 1)
    reply = _reply(reader)
    assert [key for key, row in reply.partitions.items() if row.records] == [("many", MANY - 1)]


def test_what_moves_while_a_large_fetch_is_looked_at_ends_its_waiting(paced: Pieces) -> None:
    offsets = _many(paced)
    reader, writer = paced.connect(), paced.connect()
    watched = paced.network.request_handlers.fetch.watches._watched
    reader.send(_request(offsets, wait_ms=LONG_MS))
    paced.run(lambda: watched, "the first of them are watched")
    assert len(watched) < MANY
    _write(writer, 0)
    assert _reply(reader).partitions["many", 0].records


def test_what_moves_while_a_large_answer_is_made_is_in_the_next_one(paced: Pieces) -> None:
    offsets = _many(paced)
    reader, writer = paced.connect(), paced.connect()
    reader.send(_request(offsets))
    cache = paced.network.request_handlers.fetch._cache
    paced.run(lambda: len(cache), "the answer is begun")
    assert reader.replies == []
    _write(writer, 0)
    session = _reply(reader).session
    reply = read_fetched(reader.ask(_request({}, session=session, epoch=1, wait_ms=LONG_MS)))
    assert reply.partitions["many", 0].records


def test_time_of_a_large_fetch_passes_while_it_is_looked_at(paced: Pieces) -> None:
    offsets = _many(paced)
    reader = paced.connect()
    reader.send(_request(offsets, wait_ms=1))
    assert len(_reply(reader).partitions) == MANY


@pytest.mark.parametrize("wait_ms", [0, LONG_MS])
def test_nothing_is_left_of_a_large_fetch_whose_client_goes_at_any_step(paced: Pieces, wait_ms: int) -> None:
    offsets = _many(paced)
    handler = paced.network.request_handlers.fetch
    for passes in range(24):
        reader = paced.connect()
        reader.send(_request(offsets, wait_ms=wait_ms, epoch=-1))
        for _ in range(passes):
            paced.turn()
        # A reset: who only says that nothing more comes may still wait for the answer.
        reader.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader.close()
        paced.clients.remove(reader)
        paced.run(lambda: not len(paced.network.clients) and not paced.network._turns, "it is forgotten")
        assert (handler.watches.interested, handler.held_bytes, handler._waiting) == ({}, 0, {})
    assert len(handler) == 0


def test_large_fetch_that_is_malformed_closes_its_connection(paced: Pieces) -> None:
    client, other = paced.connect(), paced.connect()
    whole = _request(_unknown(ROWS))
    cut = whole[: len(whole) - 100]
    client.send((len(cut) - 4).to_bytes(4, "big") + cut[4:])
    paced.run(lambda: client.is_closed, "it is refused")
    assert paced.network.request_handlers.fetch.held_bytes == 0
    assert read_fetched(other.ask(_request({(TOPIC, 0): 0}))).error == 0


def test_crowd_of_large_fetches_is_not_decoded_all_at_once(paced: Pieces) -> None:
    """What they are decoded to is many times as large: of each size few are begun."""
    clients = [paced.connect() for _ in range(40)]
    for client in clients:
        client.send(_request(_unknown(ROWS)))
    fetches = paced.network.request_handlers.fetch
    paced.run(lambda: fetches.held_bytes > 3 << 20, "more have come than are begun")
    assert sum(fetches._sizes._in_progress.values()) <= IN_PROGRESS_BYTES
    assert all(len(_reply(client).partitions) == ROWS for client in clients)
    assert fetches.held_bytes == 0
