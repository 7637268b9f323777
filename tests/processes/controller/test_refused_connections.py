"""Brokers whose hosts refuse connections, against real sockets and a clock of the test."""

import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.processes.controller.refused_connections import RefusedConnections, Watched
from kafkad.processes.runtime.broker_connections import Destination
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts
from kafkad.processes.runtime.event_loop import EventLoop

PATIENCE_MS = 500


class Broker:
    """Listens at its address while it lives, and answers what it is asked."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.connection: socket.socket | None = None

    def has_answered(self) -> bool:
        """Do the next part of it, as far as that is possible now."""
        try:
            if self.connection is None:
                self.listener.setblocking(False)
                self.connection, _ = self.listener.accept()
                self.connection.setblocking(False)
            frame = self.connection.recv(100)
        except BlockingIOError:
            return False
        correlation_id = struct.unpack_from(">i", frame, 8)[0]
        self.connection.sendall(struct.pack(">iihi", 10, correlation_id, 0, 0))
        return True

    def die(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self.listener.close()

    def live_again(self) -> None:
        self.listener = socket.create_server(self.address)


class Watcher:
    def __init__(self, timeout_of_ms: int = PATIENCE_MS) -> None:
        self.now_ms = 10_000
        self.refusing: list[Watched] = []
        self.answering: list[Watched] = []
        self.loop = EventLoop()
        self.refusals = RefusedConnections(
            self.loop,
            "1",
            ConnectionTimeouts(),
            LogRateLimit(),
            timeout_of_ms,
            lambda: self.now_ms,
        )

    def run_until(self, is_true: Callable[[], bool]) -> None:
        """Time passes as far as the next deadline, whenever nothing else happens."""
        deadline = time.monotonic() + WITHIN_S
        while not is_true():
            assert time.monotonic() < deadline, "it did not happen"
            self.loop.run_once(20)
            next_ms = self.refusals.next_deadline_ms
            if next_ms is not None and next_ms - self.now_ms <= 1_000:
                self.now_ms = max(self.now_ms, next_ms)
            self.refusals.tick()
            self.refusing += self.refusals.take_suspects()
            self.answering += self.refusals.take_recovered()


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.die()


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher()
    yield made
    made.refusals.close()
    made.loop.close()


def watched(broker: Broker, epoch: int = 7) -> Watched:
    return Watched(Destination(2, *broker.address[:2]), epoch)


def begin(watcher: Watcher, broker: Broker) -> None:
    watcher.refusals.watch({watched(broker)})
    watcher.run_until(broker.has_answered)
    watcher.run_until(lambda: watcher.answering == [watched(broker)])


def test_a_broker_that_answered_and_is_refused_for_long_enough_is_named_and_answers_again(
    watcher: Watcher, broker: Broker
) -> None:
    begin(watcher, broker)
    assert watcher.refusals.next_deadline_ms is None, "nothing happens while all is well"
    began_ms = watcher.now_ms
    broker.die()
    watcher.run_until(lambda: watcher.refusing != [])
    assert watcher.refusing == [watched(broker)]
    assert PATIENCE_MS <= watcher.now_ms - began_ms <= PATIENCE_MS + 100
    broker.live_again()
    watcher.run_until(broker.has_answered)
    watcher.run_until(lambda: watcher.answering == [watched(broker)] * 2)


def test_one_that_is_back_in_time_is_not_named(watcher: Watcher, broker: Broker) -> None:
    begin(watcher, broker)
    broker.die()
    began_ms = watcher.now_ms
    watcher.run_until(lambda: watcher.now_ms >= began_ms + 300)
    broker.live_again()
    watcher.run_until(broker.has_answered)
    watcher.run_until(lambda: watcher.answering == [watched(broker)] * 2)
    assert watcher.refusing == []


@pytest.mark.parametrize("epoch", [7, 8])
def test_one_that_never_answered_in_this_life_is_not_named(watcher: Watcher, broker: Broker, epoch: int) -> None:
    """Apache Kafka registers before it listens."""
    if epoch == 8:
        begin(watcher, broker)
    broker.die()
    watcher.refusals.watch({watched(broker, epoch)})
    began_ms = watcher.now_ms
    watcher.run_until(lambda: watcher.now_ms >= began_ms + 10 * PATIENCE_MS)
    assert watcher.refusing == []


def test_patience_of_0_waits_for_the_session() -> None:
    watcher = Watcher(timeout_of_ms=0)
    watcher.refusals.watch({Watched(Destination(2, "127.0.0.1", 1), 7)})
    assert watcher.refusals.next_deadline_ms is None
    watcher.refusals.close()
    watcher.loop.close()


def test_who_is_watched_no_more_is_let_go(watcher: Watcher, broker: Broker) -> None:
    begin(watcher, broker)
    watcher.refusals.watch(set())
    assert broker.connection is not None
    broker.connection.settimeout(WITHIN_S)
    assert broker.connection.recv(1) == b""
    assert watcher.refusals.next_deadline_ms is None
