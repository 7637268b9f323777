"""A reader that takes so little at a time that a reply is still leaving when the log of its broker is truncated."""

import socket

from bench.brokers.processes import WITHIN_S
from tests.processes.fetcher.two_brokers import NAME, Broker, TwoBrokers
from tests.processes.pieces import FETCHER
from tests.tools.raw_requests import batch, fetch, produce

LARGE = 500_000
"""Bytes of a record: two are more than the sockets of a slow reader take."""


def reply_across_a_truncation(brokers: TwoBrokers) -> tuple[bytes, bytes]:
    """What the log had when the reply was made, and what comes of it when the log has other records there."""
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

    got = _rest(brokers, reader, len(before))
    reader.close()
    return before, got


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
