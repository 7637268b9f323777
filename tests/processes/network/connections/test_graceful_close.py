"""A connection that ends while its client still reads: nothing of the last replies is lost, nobody waits for ever."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.processes.network.connections.graceful_close import LINGER_MS, close_gracefully

REPLY = bytes(range(256)) * 300


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The broker's end and the client's, which takes in little at once."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        client.settimeout(WITHIN_S)
        client.connect(listening.getsockname())
        broker, _ = listening.accept()
        broker.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * len(REPLY))
        broker.setblocking(False)
        with broker:
            yield broker, client


def _received(client: socket.socket) -> bytes:
    received = bytearray()
    while data := client.recv(1 << 16):
        received += data
    return bytes(received)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def test_reply_arrives_though_the_client_has_sent_what_nobody_reads(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    broker, client = ends
    assert broker.send(REPLY) == len(REPLY)
    client.sendall(b"a request that came too late")

    def end() -> None:
        close_gracefully([broker], _now_ms)
        broker.close()

    with ThreadPoolExecutor(1) as other:
        ending = other.submit(end)
        assert _received(client) == REPLY
        client.close()
        ending.result(10)


def test_without_it_the_reply_is_lost(ends: tuple[socket.socket, socket.socket]) -> None:
    """What the test above is about: else it could not fail."""
    broker, client = ends
    assert broker.send(REPLY) == len(REPLY)
    client.sendall(b"a request that came too late")
    broker.close()
    with pytest.raises(ConnectionResetError):
        _received(client)


def test_client_that_does_not_read_is_waited_for_only_so_long(ends: tuple[socket.socket, socket.socket]) -> None:
    broker, client = ends
    broker.send(REPLY)
    client.sendall(b"more")
    began = _now_ms()
    close_gracefully([broker], _now_ms)
    assert LINGER_MS <= _now_ms() - began < 20 * LINGER_MS


def test_idle_connections_are_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        clients = [socket.create_connection(listening.getsockname()) for _ in range(100)]
        ends = [listening.accept()[0] for _ in clients]
        times = iter(range(0, 100 * LINGER_MS, LINGER_MS))
        close_gracefully(ends, lambda: next(times))
        # The clock was looked at once: nobody lingered.
        assert next(times) == LINGER_MS
        assert {client.recv(1) for client in clients} == {b""}
        for sock in (*clients, *ends):
            sock.close()
