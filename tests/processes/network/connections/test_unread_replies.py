"""Clients that ask for much and read little: no reply is made before its time, and memory stays bounded."""

import pytest

from kafkad.core.controller.deltas import TopicCreated
from kafkad.core.metrics.catalogue import request_index
from kafkad.processes.network.connections.connection import OUT_LIMIT_BYTES, Connection
from kafkad.processes.network.connections.loop_pass import PRODUCES_PER_PASS, REQUESTS_PER_PASS
from tests.processes.pieces import NETWORK, TOPIC, Client, Pieces
from tests.tools.raw_requests import (
    METADATA,
    PRODUCE,
    api_versions,
    batch,
    fetch,
    framed,
    metadata,
    produce,
    read_produced,
)

LIMIT = 1 << 20
BIG = "big"
REPLY_BYTES = 26 * 5_000


@pytest.fixture
def big(pieces: Pieces) -> Pieces:
    """With a topic that makes replies large; the worker has not heard of it."""
    pieces.publish(TopicCreated(pieces.topic(BIG, 5_000)), to=(NETWORK,))
    pieces.run_until_known(NETWORK)
    pieces.network.clients.unread._limit = LIMIT
    return pieces


def _connection(pieces: Pieces, client: Client) -> Connection:
    return next(each for each in pieces.network.clients._by_fd.values() if each.peer == client.name)


def _silent(pieces: Pieces) -> Client:
    """A client that reads nothing."""
    client = pieces.connect()
    pieces.clients.remove(client)
    return client


def _all_topics() -> bytes:
    return framed(METADATA, 1, b"\xff\xff\xff\xff")


def _unread(pieces: Pieces) -> int:
    """Bytes of all replies that are not sent, each counted once."""
    pieces_of = [each for of in pieces.network.clients._by_fd.values() for each in of.unsent_pieces()]
    return sum(len(each) for each in {id(each): each for each in pieces_of}.values() if isinstance(each, bytes))


@pytest.mark.parametrize("request_", [_all_topics(), metadata([BIG])], ids=["all", "one"])
def test_pipelined_requests_make_no_more_replies_than_may_be_unread(big: Pieces, request_: bytes) -> None:
    client = _silent(big)
    client.sock.send(request_ * 200)
    for _ in range(20):
        big.turn(NETWORK)
        assert _connection(big, client).out_bytes <= OUT_LIMIT_BYTES + 2 * REPLY_BYTES
    big.clients.append(client)
    big.run(lambda: len(client.replies) == 200, "who reads gets all of them")


def test_many_who_ask_for_all_topics_share_one_reply(big: Pieces) -> None:
    big.network.clients.unread.next_check_ms = 1 << 62
    clients = [_silent(big) for _ in range(20)]
    for client in clients:
        client.sock.send(_all_topics() * 20)
    for _ in range(20):
        big.turn(NETWORK)
    assert sum(_connection(big, client).out_bytes for client in clients) > 10 * OUT_LIMIT_BYTES
    assert _unread(big) < 3 * REPLY_BYTES


def test_who_does_not_read_is_closed_when_others_want_replies(big: Pieces, caplog: pytest.LogCaptureFixture) -> None:
    clients = [_silent(big) for _ in range(20)]
    for client in clients:
        client.sock.send(metadata([BIG]) * 20)
    for _ in range(20):
        big.turn(NETWORK)
        assert _unread(big) <= LIMIT + 2 * REPLY_BYTES
    other = big.connect()
    assert len(other.ask(metadata([BIG]))) > REPLY_BYTES
    assert not other.is_closed
    # Once a minute for each address.
    assert sum("does not read its replies" in line for line in caplog.messages) == 1
    for client in clients:
        client.close()


def test_producers_and_consumers_do_not_wait_for_those_who_do_not_read(big: Pieces) -> None:
    clients = [_silent(big) for _ in range(20)]
    for client in clients:
        client.sock.send(metadata([BIG]) * 20)
    for _ in range(20):
        big.turn(NETWORK)
    big.network.clients.unread.next_check_ms = 1 << 62
    other = big.connect()
    assert other.ask(api_versions())
    assert read_produced(other.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0
    assert other.ask(fetch({(TOPIC, 0): 0}))
    for client in clients:
        client.close()


def test_who_sends_many_requests_at_once_lets_others_go_first(pieces: Pieces) -> None:
    client, other = pieces.connect(), pieces.connect()
    count = 10 * REQUESTS_PER_PASS
    client.send(b"".join(api_versions(correlation=at) for at in range(count)))
    pieces.turn(NETWORK)
    client.pump()
    assert 0 < len(client.replies) <= 2 * REQUESTS_PER_PASS
    other.ask(api_versions())
    assert len(client.replies) < count
    pieces.run(lambda: len(client.replies) == count, "all are answered")
    assert [number for number, _ in client.replies] == list(range(count))


def test_who_sends_many_produce_requests_at_once_lets_others_go_first(pieces: Pieces) -> None:
    client, other = pieces.connect(), pieces.connect()
    begun = pieces.network.request_handlers.produce
    count = 5 * PRODUCES_PER_PASS
    client.send(b"".join(produce({(TOPIC, 0): batch()}, correlation=at) for at in range(count)))
    for passes in range(1, 4):
        pieces.turn(NETWORK)
        assert 0 < len(begun) <= (passes + 1) * PRODUCES_PER_PASS
    other.ask(api_versions())
    assert len(begun) < count
    pieces.run(lambda: len(client.replies) == count, "all are answered")
    assert [number for number, _ in client.replies] == list(range(count))
    assert pieces.published().hw_offset == count


def test_of_a_client_whose_record_is_refused_no_further_ones_are_read(pieces: Pieces) -> None:
    """With acks=0 its connection is closed; what it has sent in one go was handed over to the worker as a whole."""
    client = pieces.connect()
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    client.send(produce({(TOPIC, 0): bytes(damaged)}, acks=0) * 100)
    counted = request_index(PRODUCE, 7)
    pieces.run(lambda: client.is_closed, "its connection is closed")
    assert 0 < pieces.network.clients._block[counted] <= 3 * PRODUCES_PER_PASS
