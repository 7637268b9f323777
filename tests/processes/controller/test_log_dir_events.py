"""A log directory that fails while ZooKeeper is away is told to the controller afterwards."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.startup.term import ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationStore, NoNode, SessionLost, SessionSuspended
from kafkad.processes.controller.requests.log_dir_events import RETRY_MS, LogDirEvents


class Told:
    """Broker 3, whose store's thread has done its work when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.is_registered = True
        self.store = EmbeddedStore(Path(":memory:"), 3)
        ensure_paths(self.store)
        self.works: list[tuple[Callable[[CoordinationStore], str], Callable[[Future[str]], None]]] = []
        self.log_dir_events = LogDirEvents(3, lambda *work: self.works.append(work), lambda: self.now_ms)

    def turn(self) -> None:
        self.log_dir_events.tick(self.now_ms, is_registered=self.is_registered)

    def end(self, error: Exception | None = None) -> None:
        """The work is done, or failed."""
        work, done = self.works.pop(0)
        future: Future[str] = Future()
        if error is None:
            future.set_result(work(self.store))
        else:
            future.set_exception(error)
        done(future)

    def wait(self) -> None:
        """Until there is something to do."""
        deadline_ms = self.log_dir_events.next_deadline_ms
        assert deadline_ms is not None
        self.now_ms = max(self.now_ms, deadline_ms)
        self.turn()

    @property
    def events(self) -> list[bytes]:
        names = self.store.children(nodes.LOG_DIR_EVENTS)
        return [self.store.get(f"{nodes.LOG_DIR_EVENTS}/{name}").data for name in names]


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.store.close()


def test_a_failure_is_told_as_apache_kafka_does(told: Told) -> None:
    told.turn()
    assert (told.works, told.log_dir_events.next_deadline_ms) == ([], None), "nothing has failed"
    told.log_dir_events.send()
    told.turn()
    told.turn()
    told.end()
    assert told.events == [b'{"version":1,"broker":3,"event":1}']
    assert (told.works, told.log_dir_events.next_deadline_ms) == ([], None)
    assert nodes.decode_log_dir_event(told.events[0]).broker == 3


@pytest.mark.parametrize("error", [SessionSuspended("/x"), SessionLost("/x"), NoNode("/x")])
def test_it_is_told_again_until_zookeeper_has_it(told: Told, error: Exception) -> None:
    told.log_dir_events.send()
    for _ in range(3):
        told.wait()
        told.end(error)
        told.turn()
        assert told.works == [], "not at once"
        assert told.log_dir_events.next_deadline_ms == told.now_ms + RETRY_MS
    told.wait()
    told.end()
    assert len(told.events) == 1
    assert told.log_dir_events.next_deadline_ms is None


def test_a_directory_that_fails_meanwhile_is_told_as_well(told: Told) -> None:
    """The controller may have asked by then which replicas are offline."""
    told.log_dir_events.send()
    told.turn()
    told.log_dir_events.send()
    told.end()
    told.turn()
    told.end()
    assert len(told.events) == 2


def test_who_is_not_registered_waits(told: Told) -> None:
    told.is_registered = False
    told.log_dir_events.send()
    told.wait()
    told.wait()
    assert told.works == []
    told.is_registered = True
    told.wait()
    told.end()
    assert len(told.events) == 1


def test_an_error_that_is_not_the_stores_is_not_hidden(told: Told) -> None:
    told.log_dir_events.send()
    told.turn()
    with pytest.raises(ZeroDivisionError):
        told.end(ZeroDivisionError())
