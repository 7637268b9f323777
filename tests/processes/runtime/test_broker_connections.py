"""Connections to other brokers, against real sockets: order, what breaks, what is late, and who is no broker."""

import logging
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.processes.fetcher.loop import leader_timeouts
from kafkad.processes.runtime.broker_connections import (
    LONGEST_PAUSE_MS,
    BrokerConnections,
    Destination,
    Request,
)
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts, timeouts_of
from kafkad.processes.runtime.event_loop import EventLoop
from tests.config.configurations import configured

STOP_REPLICA = 5
API_VERSIONS = 18


@dataclass
class Clock:
    now_ms: int = 1_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class Other:
    """Another broker: one listening socket, whose connections the test serves by hand."""

    listener: socket.socket
    connections: list[socket.socket] = field(default_factory=list)

    @property
    def destination(self) -> Destination:
        return Destination(2, *self.listener.getsockname()[:2])

    @property
    def has_somebody(self) -> bool:
        return bool(select.select([self.listener], [], [], 0)[0])

    def accept(self) -> socket.socket:
        accepted, _ = self.listener.accept()
        accepted.settimeout(WITHIN_S)
        self.connections.append(accepted)
        return accepted


@dataclass
class Heard:
    replies: list[bytes] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def request(self, body: bytes = b"body") -> Request:
        return Request(
            api_key=STOP_REPLICA,
            version=4,
            is_flexible=True,
            body=body,
            on_reply=lambda view: self.replies.append(bytes(view)),
            on_failure=self.failures.append,
        )


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop()
    yield made
    made.close()


@pytest.fixture
def other() -> Iterator[Other]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(WITHIN_S)
    made = Other(listener)
    yield made
    for each in (*made.connections, listener):
        each.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def connections(loop: EventLoop, clock: Clock) -> Iterator[BrokerConnections]:
    made = BrokerConnections(loop, "1", ConnectionTimeouts(), clock)
    yield made
    made.close()


def run_until(loop: EventLoop, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen"
        loop.run_once(10)


def read_request(connection: socket.socket) -> tuple[int, bytes]:
    """The correlation id of the next request, and its bytes without the length."""
    (length,) = struct.unpack(">i", read_exactly(connection, 4))
    frame = read_exactly(connection, length)
    return struct.unpack_from(">i", frame, 4)[0], frame


def read_exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        chunk = connection.recv(size - len(found))
        assert chunk, "the connection was closed"
        found += chunk
    return found


def answer(connection: socket.socket, correlation_id: int, body: bytes) -> None:
    connection.sendall(struct.pack(">iib", len(body) + 5, correlation_id, 0) + body)


def test_a_request_carries_its_header_and_gets_the_body_of_its_answer(
    loop: EventLoop, connections: BrokerConnections, other: Other
) -> None:
    heard = Heard()
    connections.send(other.destination, heard.request(b"the body"))
    connection = other.accept()
    loop.run_once(100)
    correlation_id, frame = read_request(connection)
    assert frame == struct.pack(">hhih", STOP_REPLICA, 4, correlation_id, 1) + b"1\x00the body"
    answer(connection, correlation_id, b"done")
    run_until(loop, lambda: heard.replies != [])
    assert (heard.replies, heard.failures) == ([b"done"], [])


def test_the_answer_to_api_versions_has_no_tagged_fields_in_its_header(
    loop: EventLoop, connections: BrokerConnections, other: Other
) -> None:
    heard = Heard()
    connections.send(other.destination, replace(heard.request(), api_key=API_VERSIONS))
    connection = other.accept()
    loop.run_once(100)
    correlation_id, _ = read_request(connection)
    connection.sendall(struct.pack(">ii", 8, correlation_id) + b"body")
    run_until(loop, lambda: heard.replies != [])
    assert heard.replies == [b"body"]


def test_the_next_request_waits_for_the_answer_to_the_one_before(
    loop: EventLoop, connections: BrokerConnections, other: Other
) -> None:
    heard = Heard()
    for body in (b"first", b"second"):
        connections.send(other.destination, heard.request(body))
    connection = other.accept()
    loop.run_once(100)
    correlation_id, frame = read_request(connection)
    assert frame.endswith(b"first")
    loop.run_once(0)
    connection.setblocking(False)
    with pytest.raises(BlockingIOError):
        connection.recv(1)
    connection.settimeout(WITHIN_S)
    answer(connection, correlation_id, b"1")
    run_until(loop, lambda: heard.replies != [])
    correlation_id, frame = read_request(connection)
    assert frame.endswith(b"second")
    answer(connection, correlation_id, b"2")
    run_until(loop, lambda: len(heard.replies) == 2)
    assert heard.replies == [b"1", b"2"]


def test_a_request_that_repeats_is_sent_again_after_a_pause(
    loop: EventLoop, connections: BrokerConnections, other: Other, clock: Clock
) -> None:
    heard = Heard()
    connections.send(other.destination, replace(heard.request(), repeats=True))
    first = other.accept()
    loop.run_once(100)
    read_request(first)
    first.close()
    run_until(loop, lambda: connections.next_deadline_ms is not None and connections.next_deadline_ms < 2_000)
    clock.now_ms += LONGEST_PAUSE_MS
    connections.tick()
    second = other.accept()
    loop.run_once(100)
    correlation_id, _ = read_request(second)
    answer(second, correlation_id, b"done")
    run_until(loop, lambda: heard.replies != [])
    assert (heard.replies, heard.failures) == ([b"done"], [])


def test_another_request_fails_and_the_next_goes_on(
    loop: EventLoop, connections: BrokerConnections, other: Other, clock: Clock
) -> None:
    heard = Heard()
    for body in (b"first", b"second"):
        connections.send(other.destination, heard.request(body))
    first = other.accept()
    loop.run_once(100)
    read_request(first)
    first.close()
    run_until(loop, lambda: heard.failures != [])
    assert heard.failures == ["the peer closed the connection before its response"]
    clock.now_ms += LONGEST_PAUSE_MS
    connections.tick()
    second = other.accept()
    loop.run_once(100)
    assert read_request(second)[1].endswith(b"second")


def test_a_broker_that_does_not_listen_is_tried_again(
    loop: EventLoop, connections: BrokerConnections, other: Other, clock: Clock
) -> None:
    to = other.destination
    other.listener.close()
    heard = Heard()
    connections.send(to, replace(heard.request(), repeats=True))
    run_until(loop, lambda: connections.next_deadline_ms == clock.now_ms + 100)
    with socket.create_server((to.host, to.port)) as listener:
        listener.settimeout(WITHIN_S)
        clock.now_ms += 100
        connections.tick()
        accepted, _ = listener.accept()
        accepted.settimeout(WITHIN_S)
        loop.run_once(100)
        correlation_id, _ = read_request(accepted)
        answer(accepted, correlation_id, b"done")
        run_until(loop, lambda: heard.replies != [])
        accepted.close()


def test_a_silent_peer_is_given_up(loop: EventLoop, connections: BrokerConnections, other: Other, clock: Clock) -> None:
    heard = Heard()
    connections.send(other.destination, replace(heard.request(), timeout_ms=500))
    connection = other.accept()
    loop.run_once(100)
    read_request(connection)
    clock.now_ms += 500
    connections.tick()
    assert heard.failures == ["no response within the request timeout"]
    assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (
            b"HTTP/1.1 400 Bad Request",
            "the peer does not speak Kafka's protocol: it sent text that starts with 'HTTP'",
        ),
        (
            struct.pack(">i", 2**31 - 1),
            "the peer does not speak Kafka's protocol: it sent a response length of 2147483647",
        ),
        (struct.pack(">i", -1), "the peer does not speak Kafka's protocol: it sent a response length of -1"),
        (b"\x15\x03\x03\x00", "the peer does not speak Kafka's protocol: it sent a TLS alert"),
        (struct.pack(">ii", 4, 77), "the peer sent a response with an unknown correlation id"),
        (struct.pack(">i", 100) + b"half", "the peer closed the connection within a response"),
    ],
)
def test_a_peer_that_is_no_broker_is_named_once_and_left(
    loop: EventLoop,
    connections: BrokerConnections,
    other: Other,
    caplog: pytest.LogCaptureFixture,
    clock: Clock,
    sent: bytes,
    reason: str,
) -> None:
    heard = Heard()
    for attempt in (1, 2):
        connections.send(other.destination, heard.request())
        clock.now_ms += LONGEST_PAUSE_MS
        with caplog.at_level(logging.WARNING):
            connections.tick()
            connection = other.accept()
            loop.run_once(100)
            read_request(connection)
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            run_until(loop, lambda attempt=attempt: len(heard.failures) == attempt)  # type: ignore[misc]
    assert heard.failures == [reason, reason]
    assert [record.getMessage() for record in caplog.records] == [f"{other.destination}: {reason}"]


def test_a_name_that_does_not_resolve_fails_alone(
    loop: EventLoop, connections: BrokerConnections, other: Other
) -> None:
    unknown, heard = Heard(), Heard()
    connections.send(Destination(3, "no such host", 9092), unknown.request())
    connections.send(other.destination, heard.request())
    connection = other.accept()
    loop.run_once(100)
    run_until(loop, lambda: unknown.failures != [])
    correlation_id, _ = read_request(connection)
    answer(connection, correlation_id, b"done")
    run_until(loop, lambda: heard.replies != [])
    assert unknown.failures[0].startswith("the host name can't be resolved: ")


def test_a_name_is_resolved_without_waiting(loop: EventLoop, connections: BrokerConnections, other: Other) -> None:
    heard = Heard()
    connections.send(replace(other.destination, host="localhost"), heard.request())
    other.listener.settimeout(0)
    accepted: list[socket.socket] = []

    def is_connected() -> bool:
        try:
            accepted.append(other.accept())
        except BlockingIOError:
            return False
        return True

    run_until(loop, is_connected)
    loop.run_once(100)
    correlation_id, _ = read_request(accepted[0])
    answer(accepted[0], correlation_id, b"done")
    run_until(loop, lambda: heard.replies != [])


def test_an_idle_connection_that_is_closed_is_made_again_without_a_pause(
    loop: EventLoop, connections: BrokerConnections, other: Other, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    connections.send(other.destination, heard.request())
    first = other.accept()
    loop.run_once(100)
    answer(first, read_request(first)[0], b"1")
    run_until(loop, lambda: heard.replies != [])
    first.close()
    loop.run_once(1_000)
    connections.send(other.destination, heard.request())
    second = other.accept()
    loop.run_once(100)
    answer(second, read_request(second)[0], b"2")
    run_until(loop, lambda: len(heard.replies) == 2)
    assert caplog.records == []


def test_a_dropped_destination_fails_all_its_requests(
    loop: EventLoop, connections: BrokerConnections, other: Other
) -> None:
    heard = Heard()
    for _ in range(3):
        connections.send(other.destination, replace(heard.request(), repeats=True))
    connections.drop(other.destination)
    assert len(heard.failures) == 3
    assert connections.next_deadline_ms is None


def test_an_answer_is_received_where_the_sender_wants_it(
    loop: EventLoop, connections: BrokerConnections, other: Other
) -> None:
    memory = bytearray(1_000)
    heard = Heard()
    request = replace(heard.request(), allocate=lambda length: memoryview(memory)[:length])
    connections.send(other.destination, request)
    connection = other.accept()
    loop.run_once(100)
    answer(connection, read_request(connection)[0], b"in place")
    run_until(loop, lambda: heard.replies != [])
    assert memory[5:13] == b"in place"


def test_a_large_request_is_sent_in_parts(loop: EventLoop, connections: BrokerConnections, other: Other) -> None:
    heard = Heard()
    body = bytes(range(256)) * 40_000
    connections.send(other.destination, heard.request(body))
    connection = other.accept()
    loop.run_once(100)
    connection.setblocking(False)
    found = bytearray()

    def has_all() -> bool:
        try:
            found.extend(connection.recv(1 << 20))
        except BlockingIOError:
            return False
        return len(found) >= len(body) + 4

    run_until(loop, has_all)
    assert found.endswith(body)


def test_who_shares_complaints_says_the_same_of_a_broker_once(
    loop: EventLoop, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    shared, heard = LogRateLimit(), Heard()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        to = Destination(2, "127.0.0.1", nobody.getsockname()[1])
        for count in (1, 2):
            made = BrokerConnections(loop, "1", ConnectionTimeouts(), clock, log_rate_limit=shared)
            made.send(to, heard.request())
            run_until(loop, lambda count=count: len(heard.failures) == count)  # type: ignore[misc]
            made.close()
    assert [record.getMessage() for record in caplog.records] == [f"{to}: Connection refused"]


def test_waits_are_those_of_the_options() -> None:
    config = configured(
        ("socket.connection.setup.timeout.ms", "300"),
        ("socket.connection.setup.timeout.max.ms", "1000"),
        ("controller.socket.timeout.ms", "7"),
    )
    timeouts = timeouts_of(config.values, "controller.socket.timeout.ms")
    assert [timeouts.setup_after(each) for each in (0, 1, 2, 1_000_000)] == [300, 600, 1_000, 1_000]
    assert timeouts.response_ms == 7
    assert replace(timeouts, setup_ms=5_000).setup_after(3) == 5_000, "the first wait is longer than the longest one"


def test_each_failed_attempt_to_connect_is_followed_by_a_more_patient_one(
    loop: EventLoop, clock: Clock, other: Other
) -> None:
    made = BrokerConnections(loop, "1", ConnectionTimeouts(setup_ms=300, longest_setup_ms=1_000), clock)
    heard = Heard()
    try:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            to = Destination(2, "127.0.0.1", nobody.getsockname()[1])
            for wait_ms in (300, 600, 1_000, 1_000):
                made.send(to, replace(heard.request(), longest_pause_ms=0))
                made.tick()
                assert made.next_deadline_ms == clock.now_ms + wait_ms
                failed = len(heard.failures)
                run_until(loop, lambda failed=failed: len(heard.failures) > failed)  # type: ignore[misc]
    finally:
        made.close()
    assert heard.failures == ["Connection refused"] * 4


def receive_buffer_of(port: int) -> int:
    """Of the socket of this process that has this port."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as found:
            if found.family == socket.AF_INET and found.getsockname()[1] == port:
                return found.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    raise AssertionError(f"no socket has port {port}")


def test_the_receive_buffer_is_that_of_the_option_where_it_is_set(loop: EventLoop, clock: Clock, other: Other) -> None:
    option = "replica.socket.receive.buffer.bytes"
    for written, wanted in ((), None), (((option, "65536"),), 65_536), (((option, "-1"),), None):
        assert leader_timeouts(configured(*written)).receive_buffer_bytes == wanted
    made = BrokerConnections(loop, "1", ConnectionTimeouts(receive_buffer_bytes=20_000), clock)
    made.send(other.destination, Heard().request())
    run_until(loop, lambda: other.has_somebody)
    # The kernel takes as much again for itself.
    assert receive_buffer_of(other.accept().getpeername()[1]) == 40_000
    made.close()


def test_a_connection_that_is_not_accepted_is_given_up(connections: BrokerConnections, clock: Clock) -> None:
    """A listener with a full queue answers nothing."""
    heard = Heard()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        port = silent.getsockname()[1]
        filling = [socket.socket() for _ in range(3)]
        for each in filling:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        connections.send(Destination(2, "127.0.0.1", port), heard.request())
        clock.now_ms += ConnectionTimeouts().setup_ms
        connections.tick()
        for each in filling:
            each.close()
    assert heard.failures == ["no connection within the setup timeout"]
