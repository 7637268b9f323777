"""A log is cut when no reader uses what goes; until then the slot says already where it ends."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.fetcher.two_brokers import NAME, Broker, TwoBrokers
from tests.processes.pieces import FETCHER, NETWORK, WITHIN_S, WORKER
from tests.tools.raw_requests import batch, fetch, produce

LARGE = 500_000
"""Bytes of a record: two are more than the sockets of a slow reader take."""


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path)
    yield made
    made.close()


def _diverged(brokers: TwoBrokers) -> Broker:
    """Broker 1 has five records of epoch 0, broker 2 leads with one of them and two of epoch 1."""
    client = brokers.leader.connect()
    brokers.write(client)
    brokers.run_until_equal()
    brokers.follower.kill(FETCHER)
    brokers.write(client, 4)
    brokers.lead(1, 1)
    brokers.write(brokers.leader.connect(), 2)
    brokers.leader.begin(FETCHER)
    return brokers.brokers[0]


def _announced(brokers: TwoBrokers, old: Broker) -> bool:
    """The network process of the old leader stands still within a pass."""
    old.turn(WORKER, FETCHER)
    brokers.leader.turn()
    return old.published(NAME).leo_offset == 1


def test_a_reader_within_its_pass_holds_the_cut_up_and_sees_the_new_end(brokers: TwoBrokers) -> None:
    old = _diverged(brokers)
    old.registry.enter_pass(old.registry.slot(NETWORK))
    brokers.leader.run(lambda: _announced(brokers, old), "the slot has the new end")
    generation = old.published(NAME).generation
    old.turn(WORKER, FETCHER)
    assert old.log().log_end_offset == 5, "nothing is cut while a reader may use it"
    assert old.published(NAME).hw_offset <= 1
    old.registry.leave_pass(old.registry.slot(NETWORK))
    brokers.run_until_equal()
    assert old.published(NAME).generation > generation


def _write_large(brokers: TwoBrokers, size: int) -> None:
    brokers.leader.settle()
    client = brokers.leader.connect()
    for _ in range(3):
        client.send(produce({(NAME, 0): batch(size=size)}))
        brokers.run(lambda: client.replies, "a reply comes")
        client.replies.pop()


def _slow_reader(broker: Broker) -> socket.socket:
    """A connection of which nothing is read; the broker's end takes little as well."""
    before = set(broker.network.clients._by_fd)
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.settimeout(WITHIN_S)
    reader.connect(("127.0.0.1", broker.port))
    broker.run(lambda: len(broker.network.clients) > len(before), "the connection is accepted")
    (fd,) = set(broker.network.clients._by_fd) - before
    broker.network.clients._by_fd[fd].sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return reader


def _rest(brokers: TwoBrokers, reader: socket.socket, size: int) -> bytes:
    """What comes of `size` bytes until the connection ends."""
    reader.setblocking(False)
    got = bytearray()

    def is_over() -> bool:
        try:
            data = reader.recv(1 << 20)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        got.extend(data)
        return not data or len(got) >= size

    brokers.run(is_over, "the reply or the connection ends")
    return bytes(got)


def test_a_reply_that_is_leaving_when_its_log_is_cut_ends_with_its_connection(brokers: TwoBrokers) -> None:
    """The file gets other records where those of the reply were: `sendfile` would go on with them."""
    brokers.write(brokers.leader.connect())
    brokers.run_until_equal()
    brokers.follower.kill(FETCHER)
    _write_large(brokers, LARGE)
    old = brokers.leader
    before = old.content()
    reader = _slow_reader(old)
    reader.sendall(fetch({(NAME, 0): 0}))
    old.run(lambda: any(connection.out for connection in old.network.clients._by_fd.values()), "a reply is leaving")

    brokers.lead(1, 1)
    _write_large(brokers, LARGE + 1)
    brokers.run_until_equal()

    assert len(_rest(brokers, reader, len(before))) < len(before), "a reply that ends early is used by nobody"
    reader.close()


def test_a_reply_made_after_the_cut_is_whole(brokers: TwoBrokers) -> None:
    old = _diverged(brokers)
    brokers.run_until_equal()
    brokers.lead(0, 2)
    client = brokers.leader.connect()
    client.send(fetch({(NAME, 0): 0}))
    assert old.content() in client.reply()
