"""New connections: limits are kept, and a kernel that refuses is asked again later, not in every pass."""

import logging
import os
import resource
import select
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import pytest

from kafkad.adapters.shared_memory.connection_counts import TABLE_BYTES, ConnectionCounts
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.config.listeners import Listener
from kafkad.processes.network.connections.acceptor import FAILED_PAUSE_MS, Acceptor, ConnectionLimits
from kafkad.processes.runtime.peer_log import closed_connections_log
from tests.processes.pieces import NETWORK, Pieces
from tests.tools.raw_requests import api_versions

NOW_MS = 1_000


@pytest.fixture
def epoll() -> Iterator[select.epoll]:
    with select.epoll() as made:
        yield made


@contextmanager
def _no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open("/dev/null", os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _acceptor(
    epoll: select.epoll,
    pieces: Pieces,
    limits: Mapping[str, int] | None = None,
    overrides: Mapping[str, int] | None = None,
    sock: socket.socket | None = None,
    protected: Collection[str] = (),
) -> tuple[Acceptor, socket.socket]:
    listener: Listener = pieces.config.network.listeners[0]
    sock = sock or socket.create_server(("127.0.0.1", 0))
    chosen = {"most_here": 100, "max_connections": 100, "max_per_ip": 100} | dict(limits or {})
    acceptor = Acceptor(
        [(listener, sock)],
        epoll,
        buffers=(102_400, 102_400),
        most_here=chosen["most_here"],
        counts=ConnectionCounts(SharedRegion("counts", TABLE_BYTES), 0, lambda: ()),
        limits=ConnectionLimits(
            all_together=chosen["max_connections"],
            per_ip=chosen["max_per_ip"],
            per_ip_overrides=overrides or {},
            per_second=1000,
        ),
        peer_log=closed_connections_log(),
        protected=protected,
    )
    return acceptor, sock


def test_without_descriptors_the_listener_is_left_alone_for_a_moment_and_said_once(
    pieces: Pieces, epoll: select.epoll, caplog: pytest.LogCaptureFixture
) -> None:
    acceptor, sock = _acceptor(epoll, pieces)
    acceptor.open()
    with socket.create_connection(sock.getsockname()):
        ((fd, _),) = epoll.poll(5)
        with _no_descriptor_left():
            assert acceptor.accept(fd, NOW_MS) is None
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert epoll.poll(0) == []
        assert acceptor.next_check_ms == NOW_MS + FAILED_PAUSE_MS
        assert acceptor.second_check() == [fd]
        accepted = acceptor.accept(fd, NOW_MS)
        assert accepted is not None
        accepted.sock.close()
    acceptor.close()


@pytest.mark.parametrize("limit", ["most_here", "max_connections", "max_per_ip"])
def test_connection_beyond_a_limit_is_turned_away_with_a_line(
    pieces: Pieces, epoll: select.epoll, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    acceptor, sock = _acceptor(epoll, pieces, {limit: 1})
    acceptor.open()
    with (
        socket.create_connection(sock.getsockname()) as first,
        socket.create_connection(sock.getsockname()) as second,
    ):
        ((fd, _),) = epoll.poll(5)
        accepted = acceptor.accept(fd, NOW_MS)
        assert accepted is not None and accepted.peer == "{}:{}".format(*first.getsockname())
        assert acceptor.accept(fd, NOW_MS) is None
        assert second.recv(1) == b""
        (line,) = [record.getMessage() for record in caplog.records]
        assert "connection from {}:{} rejected".format(*second.getsockname()) in line
        accepted.sock.close()
        acceptor.closed("127.0.0.1")
        with socket.create_connection(sock.getsockname()):
            again = acceptor.accept(fd, NOW_MS)
            assert again is not None
            again.sock.close()
    acceptor.close()


@pytest.mark.parametrize("limit", ["most_here", "max_connections"])
def test_connection_of_a_broker_beyond_a_limit_of_all_together_takes_the_place_of_another(
    pieces: Pieces, epoll: select.epoll, limit: str
) -> None:
    acceptor, sock = _acceptor(epoll, pieces, {limit: 1}, protected=["PLAINTEXT"])
    acceptor.open()
    with socket.create_connection(sock.getsockname()), socket.create_connection(sock.getsockname()):
        ((fd, _),) = epoll.poll(5)
        first, second = acceptor.accept(fd, NOW_MS), acceptor.accept(fd, NOW_MS)
        assert first is not None and first.exceeded_limit is None
        assert second is not None and second.exceeded_limit is not None
        first.sock.close()
        second.sock.close()
    acceptor.close()


def _dual_stack_server() -> socket.socket:
    sock = socket.socket(socket.AF_INET6)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    # Of all that this listens on, nothing but the loopback is reached by this address.
    sock.bind(("::ffff:127.0.0.1", 0))
    sock.listen()
    return sock


@pytest.mark.parametrize(("per_ip", "overrides"), [(1, {}), (100, {"127.0.0.1": 1})])
def test_ipv4_peer_of_an_ipv6_listener_has_the_limits_of_its_ipv4_address(
    pieces: Pieces, epoll: select.epoll, per_ip: int, overrides: dict[str, int]
) -> None:
    acceptor, sock = _acceptor(epoll, pieces, {"max_per_ip": per_ip}, overrides, _dual_stack_server())
    acceptor.open()
    to = ("127.0.0.1", sock.getsockname()[1])
    with socket.create_connection(to) as first, socket.create_connection(to):
        ((fd, _),) = epoll.poll(5)
        accepted = acceptor.accept(fd, NOW_MS)
        assert accepted is not None
        assert (accepted.host, accepted.peer) == ("127.0.0.1", "{}:{}".format(*first.getsockname()))
        assert accepted.context.advertised[0] == "127.0.0.1"
        assert acceptor.accept(fd, NOW_MS) is None
        accepted.sock.close()
    acceptor.close()


def test_peer_that_is_turned_away_again_and_again_has_one_line(
    pieces: Pieces, epoll: select.epoll, caplog: pytest.LogCaptureFixture
) -> None:
    acceptor, sock = _acceptor(epoll, pieces, {"max_per_ip": 0})
    acceptor.open()
    for _ in range(20):
        with socket.create_connection(sock.getsockname()):
            ((fd, _),) = epoll.poll(5)
            assert acceptor.accept(fd, NOW_MS) is None
    assert len(caplog.records) == 1
    acceptor.close()


def test_listener_that_was_never_opened_can_be_closed(pieces: Pieces, epoll: select.epoll) -> None:
    acceptor, sock = _acceptor(epoll, pieces)
    acceptor.close()
    assert sock.fileno() == -1


def test_broker_serves_on_while_it_can_not_accept(pieces: Pieces) -> None:
    client = pieces.connect()
    late = socket.socket()
    with _no_descriptor_left():
        late.connect(("127.0.0.1", pieces.port))
        for _ in range(5):
            pieces.turn()
        assert client.ask(api_versions())
    late.close()


def test_idle_connections_hold_nothing_but_themselves(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces()
    for _ in range(50):
        pieces.connect()
    assert pieces.arena.used_bytes == 0


def test_newcomer_is_let_in_though_more_connections_are_ready_than_a_pass_handles(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkad.processes.runtime.event_loop.MAX_EVENTS_PER_PASS", 2)
    crowd = [pieces.connect() for _ in range(8)]
    pieces.settle()
    for client in crowd:
        client.send(api_versions())
    with socket.create_connection(("127.0.0.1", pieces.port)):
        pieces.turn(NETWORK)
        assert len(pieces.network.clients) == len(crowd) + 1
