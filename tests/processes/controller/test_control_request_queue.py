"""The controller's requests wait for what ZooKeeper says of their topics, and are answered however it stammers."""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from kafkad.adapters.shared_memory.partition_table import TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.cluster.control_requests import LeaderAndIsrResponse, UpdateMetadataPartition, UpdateMetadataResponse
from kafkad.core.cluster.request_parts import ControlRequest, ControlResponse
from kafkad.core.coordination_store import SessionSuspended
from kafkad.processes.controller import control_request_queue
from kafkad.processes.controller.control_request_queue import ControlRequestQueue
from kafkad.processes.controller.replica_removals import ReplicaRemovals
from kafkad.processes.controller.tree_reader import Configs
from kafkad.processes.runtime.turns import STEP_NS
from tests.core.hosting.test_hosting import CONFIGS, EPOCH, HERE, OTHER_ID, PLAINTEXT, a_host, a_state, known, led, told

NOW_MS = 1_000
MANY = 20_000
"""Partitions of a request that takes far longer than one pass of the loop may."""


class Handed:
    """The requests with a store whose reads end when the test says so."""

    def __init__(self) -> None:
        self.is_connected = True
        self.reads: list[Callable[[Future[Configs]], None]] = []
        self.answers: list[ControlResponse] = []
        self.host = a_host(slots=MANY)
        self.comparisons: list[Callable[[Future[frozenset[str]]], None]] = []
        removals = ReplicaRemovals(PartitionTable(SharedRegion("partitions", TABLE_BYTES)), (), self.host.unremoved)
        self.requests = ControlRequestQueue(
            self.host, self._read, self.comparisons.append, tuple, removals, lambda: self.is_connected
        )

    def _read(self, names: set[str], done: Callable[[Future[Configs]], None]) -> None:
        assert names == {"t"}
        self.reads.append(done)

    def succeed(self) -> None:
        self.begin()
        self.finish()

    def begin(self) -> None:
        """The store has answered, and the request is begun."""
        future: Future[Configs] = Future()
        future.set_result(CONFIGS)
        self.reads.pop(0)(future)

    def fail(self, error: Exception) -> None:
        future: Future[Configs] = Future()
        future.set_exception(error)
        self.reads.pop(0)(future)

    def has_topics(self, *names: str) -> None:
        """What the store answers whoever compares."""
        future: Future[frozenset[str]] = Future()
        future.set_result(frozenset(names))
        self.comparisons.pop(0)(future)

    def suspend_comparison(self) -> None:
        future: Future[frozenset[str]] = Future()
        future.set_exception(SessionSuspended("/brokers/topics"))
        self.comparisons.pop(0)(future)

    def add_all(self) -> None:
        self.requests.add(led(a_state()), self.answers.append, NOW_MS)
        self.requests.add(told(known()), self.answers.append, NOW_MS)

    def add(self, request: ControlRequest) -> None:
        self.requests.add(request, self.answers.append, NOW_MS)
        self.finish()

    def finish(self) -> None:
        """On a busy machine even one request may take more than a pass."""
        while self.requests.is_under_way:
            self.requests.tick(NOW_MS)

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
    handed.requests.abandon()
    handed.fail(SessionSuspended("/config/topics/t"))
    assert (handed.reads, handed.answered()) == ([], 0)


def test_an_error_that_is_not_the_stores_is_not_hidden() -> None:
    handed = Handed()
    handed.add_all()
    with pytest.raises(ZeroDivisionError):
        handed.fail(ZeroDivisionError())


def compared(*states: UpdateMetadataPartition) -> Handed:
    """The first controller has told of topic `t`, or of nothing, and the topics were compared."""
    handed = Handed()
    handed.add(told(*states))
    if states:
        handed.succeed()
    handed.has_topics("t")
    return handed


def test_a_topic_whose_deletion_only_an_earlier_controller_knew_of_goes() -> None:
    handed = compared(known())
    handed.add(replace(told(), controller_epoch=2))
    assert handed.answered() == 2, "nobody waits for the comparison"
    handed.has_topics("other")
    assert "t" not in handed.host.image.topics


def test_topics_are_compared_once_for_a_controller_and_a_registration() -> None:
    handed = compared(known())
    handed.add(told())
    assert handed.comparisons == []
    handed.host.registered(EPOCH + 1, (PLAINTEXT,), None)
    handed.add(replace(told(), broker_epoch=EPOCH + 1))
    handed.has_topics()
    assert "t" not in handed.host.image.topics


def test_a_topic_that_was_made_while_it_was_compared_stays() -> None:
    handed = compared()
    handed.add(replace(told(), controller_epoch=2))
    handed.add(replace(told(known()), controller_epoch=2))
    handed.succeed()
    handed.has_topics()
    assert "t" in handed.host.image.topics


def test_a_topic_that_was_made_again_while_it_was_compared_stays() -> None:
    handed = compared(known())
    handed.add(replace(told(), controller_epoch=2))
    again = replace(told(known(), topic_id=OTHER_ID), controller_epoch=2)
    handed.add(again)
    handed.succeed()
    handed.has_topics()
    assert handed.host.image.topics["t"].id == OTHER_ID


def test_a_topic_with_a_replica_here_is_not_forgotten() -> None:
    """Its directory would stay, and nobody would know whose it is."""
    handed = compared()
    handed.add(led(a_state()))
    handed.succeed()
    handed.add(replace(told(), controller_epoch=2))
    handed.has_topics()
    assert "t" in handed.host.image.topics


def test_a_comparison_that_fails_is_begun_again_when_the_session_goes_on() -> None:
    handed = compared(known())
    handed.is_connected = False
    handed.add(replace(told(), controller_epoch=2))
    handed.suspend_comparison()
    assert handed.comparisons == []
    handed.is_connected = True
    handed.requests.connected()
    handed.suspend_comparison()
    handed.has_topics()
    assert (handed.comparisons, "t" in handed.host.image.topics) == ([], False)


def test_a_large_request_is_carried_out_over_many_passes_and_answered_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each look at the clock costs half of the time of one pass.
    monkeypatch.setattr(control_request_queue, "monotonic_ns", partial(next, count(0, STEP_NS // 2)))
    handed = Handed()
    handed.requests.add(led(*(a_state(index) for index in range(MANY))), handed.answers.append, NOW_MS)
    handed.begin()
    assert handed.requests.is_under_way
    assert handed.requests.next_deadline_ms == NOW_MS, "the loop comes back at once"
    passes = 0
    while handed.requests.is_under_way:
        assert handed.answered() == 0
        handed.requests.tick(NOW_MS)
        passes += 1
    assert passes > 3
    assert handed.answered() == 1
    assert len(handed.host.image.topics["t"].partitions) == MANY


def test_a_small_request_waits_for_the_large_one_before_it() -> None:
    handed = Handed()
    handed.requests.add(led(*(a_state(index) for index in range(MANY))), handed.answers.append, NOW_MS)
    small = told(known(0, leader_epoch=0, zk_version=7, isr=(HERE,)))
    handed.requests.add(small, handed.answers.append, NOW_MS)
    handed.begin()
    assert handed.host.image.topics["t"].partitions[0].partition_epoch < 7
    while handed.requests.is_under_way:
        handed.requests.tick(NOW_MS)
    assert handed.answered() == 2
    assert [type(each) for each in handed.answers] == [LeaderAndIsrResponse, UpdateMetadataResponse]
    assert handed.host.image.topics["t"].partitions[0].partition_epoch == 7


def test_a_session_that_ends_in_the_middle_of_a_request_ends_the_request() -> None:
    """Another leads by then what the rest of it says."""
    handed = Handed()
    handed.requests.add(led(*(a_state(index) for index in range(MANY))), handed.answers.append, NOW_MS)
    handed.begin()
    assert handed.requests.is_under_way
    handed.requests.abandon()
    handed.host.session_lost()
    before = handed.host.image
    handed.requests.tick(NOW_MS)
    assert (handed.host.image is before, handed.answered()) == (True, 0)


def test_what_can_not_be_read_holds_up_nothing() -> None:
    def unreadable() -> Generator[None, None, None]:
        yield

    handed = compared()
    handed.requests.add_in_steps(unreadable(), lambda _response: pytest.fail("there is nothing to answer"), NOW_MS)
    handed.finish()
    handed.add(told())
    assert handed.answered() == 2
