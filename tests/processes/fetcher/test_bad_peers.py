"""A leader's address where something else answers, or nothing: what other leaders have is fetched all the same."""

import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from msgspec import structs

from kafkad.core.controller.deltas import BrokersChanged, PartitionsChanged
from kafkad.core.controller.image import Broker, Listener
from tests.processes.fetcher.two_brokers import ALL, NAME, TwoBrokers

STRANGER = 3
SETTINGS = {"replica.socket.timeout.ms": "300"}


class Stranger:
    """Says `words` to whoever has asked it something, and closes the connection if it `hangs_up`."""

    def __init__(self, words: bytes, *, hangs_up: bool) -> None:
        self.asked = 0
        self._words = words
        self._hangs_up = hangs_up
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._accepted: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._accepted.append(connection)
                connection.recv(65_536)
                self.asked += 1
                connection.sendall(self._words)
                if self._hangs_up:
                    connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in self._accepted:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for each in (*self._accepted, self._listener):
            each.close()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path, partitions=2, settings=SETTINGS)
    yield made
    made.close()


def give_partition_1_to(brokers: TwoBrokers, host: str, port: int) -> None:
    """Broker 3 leads it, and has this address."""
    follower = brokers.follower
    known = tuple(follower.image.brokers[each] for each in (1, 2))
    own = known[0].listeners[0]
    listener = Listener(name=own.name, host=host, port=port, security_protocol=own.security_protocol)
    stranger = Broker(id=STRANGER, epoch=9, listeners=(listener,), rack=None)
    follower.publish(BrokersChanged((*known, stranger)), to=ALL)
    row = structs.replace(
        brokers.topic.partitions[1], leader=STRANGER, leader_epoch=1, replicas=(STRANGER, 2), isr=(STRANGER,)
    )
    follower.publish(PartitionsChanged(NAME, (row,)), to=ALL)
    follower.run_until_known()


def check_that_only_partition_1_waits(
    brokers: TwoBrokers, caplog: pytest.LogCaptureFixture, is_tried_again: Callable[[], bool]
) -> list[str]:
    """Returns what is said."""
    fetcher = brokers.follower.fetcher
    client = brokers.leader.connect()
    with caplog.at_level(logging.WARNING):
        brokers.run(is_tried_again, "the stranger is asked again and again")
        for _ in range(3):
            brokers.write(client, 2)
            brokers.run_until_equal()
    assert brokers.follower.fetcher is fetcher
    assert brokers.follower.log(1).log_end_offset == 0
    return [each.getMessage() for each in caplog.records if f"broker {STRANGER} at" in each.getMessage()]


def check_that_it_is_said_once(said: list[str], reason: str) -> None:
    """One line a cause and minute; on a busy machine a stranger may be too late as well."""
    assert len([each for each in said if reason in each]) == 1
    assert {each for each in said if reason not in each and "in time" not in each} == set()
    assert len(said) == len(set(said))


@pytest.mark.parametrize(
    ("words", "hangs_up", "reason"),
    [
        (b"", False, "no response within the request timeout"),
        (b"", True, "the peer closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", True, "it sent text that starts with 'HTTP'"),
        (struct.pack(">i", 2**31 - 1), False, "it sent a response length of 2147483647"),
        (struct.pack(">i", 500) + bytes(100), True, "the peer closed the connection within a response"),
        (struct.pack(">ii", 4, 77), False, "the peer sent a response with an unknown correlation id"),
        (b"\x15\x03\x03\x00\x02\x02\x28", True, "it sent a TLS alert"),
    ],
    ids=["silent", "hangs up", "HTTP", "2 GB", "half an answer", "another's answer", "TLS"],
)
def test_who_is_no_leader_holds_up_no_other(
    brokers: TwoBrokers, caplog: pytest.LogCaptureFixture, words: bytes, hangs_up: bool, reason: str
) -> None:
    with ExitStack() as ends:
        stranger = Stranger(words, hangs_up=hangs_up)
        ends.callback(stranger.close)
        give_partition_1_to(brokers, "127.0.0.1", stranger.port)
        said = check_that_only_partition_1_waits(brokers, caplog, lambda: stranger.asked > 2)
    check_that_it_is_said_once(said, reason)


@pytest.mark.parametrize(("host", "reason"), [("no such host", "can't be resolved"), ("127.0.0.1", "refused")])
def test_an_address_where_nobody_is_holds_up_no_other(
    brokers: TwoBrokers, caplog: pytest.LogCaptureFixture, host: str, reason: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    give_partition_1_to(brokers, host, port)
    fetcher = brokers.follower.fetcher
    failures: set[int] = set()

    def is_tried_again() -> bool:
        leader = fetcher._leaders.get(STRANGER)
        failures.add(0 if leader is None else leader.fetcher._failures)
        return len(failures) > 3

    said = check_that_only_partition_1_waits(brokers, caplog, is_tried_again)
    check_that_it_is_said_once(said, reason)
