"""The controller's requests wait for what ZooKeeper says of their topics, and are answered however it stammers."""

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from kafkad.core.coordination_store import SessionSuspended
from kafkad.processes.controller.cluster.handed_requests import HandedRequests
from kafkad.processes.controller.cluster.ports import ControlResponse
from kafkad.processes.controller.cluster.tree_reader import Configs
from tests.core.hosting.test_hosting import CONFIGS, a_host, a_state, known, led, told

NOW_MS = 1_000


class Handed:
    """The requests with a store whose reads end when the test says so."""

    def __init__(self) -> None:
        self.is_connected = True
        self.reads: list[Callable[[Future[Configs]], None]] = []
        self.answers: list[ControlResponse] = []
        self.host = a_host()
        self.requests = HandedRequests(self.host, self._read, lambda: None, lambda: self.is_connected)

    def _read(self, names: set[str], done: Callable[[Future[Configs]], None]) -> None:
        assert names == {"t"}
        self.reads.append(done)

    def succeed(self) -> None:
        future: Future[Configs] = Future()
        future.set_result(CONFIGS)
        self.reads.pop(0)(future)

    def fail(self, error: Exception) -> None:
        future: Future[Configs] = Future()
        future.set_exception(error)
        self.reads.pop(0)(future)

    def add_all(self) -> None:
        self.requests.add(led(a_state()), self.answers.append, NOW_MS)
        self.requests.add(told(known()), self.answers.append, NOW_MS)

    def answered(self) -> int:
        self.requests.send_ready(self.host.image.version, NOW_MS)
        return len(self.answers)


def test_requests_that_came_while_the_session_was_suspended_are_carried_out_when_it_goes_on() -> None:
    """The controller would wait for its whole timeout of 30 s, and nobody would lead."""
    handed = Handed()
    handed.add_all()
    handed.is_connected = False
    handed.fail(SessionSuspended("/config/topics/t"))
    assert (handed.reads, handed.answered()) == ([], 0)
    handed.is_connected = True
    handed.requests.connected()
    handed.succeed()
    assert handed.answered() == 2
    assert "t" in handed.host.image.topics


def test_a_read_that_failed_before_the_session_went_on_is_begun_again_at_once() -> None:
    handed = Handed()
    handed.add_all()
    handed.requests.connected()
    assert len(handed.reads) == 1, "one at a time"
    handed.fail(SessionSuspended("/config/topics/t"))
    handed.succeed()
    assert handed.answered() == 2


def test_what_is_given_up_is_not_answered_when_its_read_ends_later() -> None:
    handed = Handed()
    handed.add_all()
    handed.requests.give_up()
    handed.fail(SessionSuspended("/config/topics/t"))
    assert (handed.reads, handed.answered()) == ([], 0)


def test_an_error_that_is_not_the_stores_is_not_hidden() -> None:
    handed = Handed()
    handed.add_all()
    with pytest.raises(ZeroDivisionError):
        handed.fail(ZeroDivisionError())
