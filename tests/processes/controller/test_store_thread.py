"""What the loop may rely on when it submits work for a coordination store, whichever store that is.

What the stores themselves promise is in tests/adapters/test_coordination_contract.py, for both as well.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import pytest
from kazoo.client import KazooClient

from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from kafkad.adapters.links.event_queue import EventQueue
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore
from kafkad.core.coordination_store import (
    CoordinationStore,
    Event,
    Node,
    NoNode,
    SessionState,
    SessionSuspended,
    WatchFired,
    WatchKind,
)
from kafkad.processes.controller.store_thread import StoreThread
from kafkad.processes.runtime.event_loop import EventLoop

Result = TypeVar("Result")
CHECK_INTERVAL_MS = 10


class Submitted:
    """A loop with its store's thread; `others` are what else the loop has to do."""

    def __init__(self, opened: Callable[[], CoordinationStore]) -> None:
        self.loop = EventLoop()
        self.thread = StoreThread(self.loop)
        self.others: EventQueue[int] = EventQueue()
        self.handled: list[int] = []
        self.loop.watch(self.others.fileno(), lambda _events: self.handled.extend(self.others.drain()))
        self.store = self.result(opened)

    def result(self, work: Callable[[], Result]) -> Result:
        done: list[Future[Result]] = []
        self.thread.submit(work, done.append)
        self.run(lambda: bool(done))
        return done[0].result()

    def run(self, condition: Callable[[], bool]) -> None:
        def holds() -> bool:
            self.loop.run_once(CHECK_INTERVAL_MS)
            return condition()

        eventually(holds, what="the loop has got there")

    def close(self) -> None:
        # A connection of SQLite is its thread's.
        self.result(self.store.close)
        self.thread.close()
        self.others.close()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    server = ZookeeperServer(tmp_path_factory.mktemp("zookeeper"))
    client = KazooClient(hosts=server.hosts)
    client.start(20)
    client.create("/kafka")
    client.stop()
    client.close()
    yield server
    server.stop()


def opened(server: ZookeeperServer, session_timeout_s: float) -> ZookeeperStore:
    return ZookeeperStore(f"{server.hosts}/kafka", session_timeout_s=session_timeout_s, connect_timeout_s=120)


@pytest.fixture(params=["embedded", "zookeeper"])
def submitted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Submitted]:
    if request.param == "embedded":
        made = Submitted(lambda: EmbeddedStore(tmp_path / FILE_NAME, 1))
    else:
        server: ZookeeperServer = request.getfixturevalue("zookeeper")
        made = Submitted(lambda: opened(server, 60))
    yield made
    made.close()


def test_work_is_done_in_order_and_told_in_the_loop(submitted: Submitted) -> None:
    store = submitted.store
    told: list[int] = []
    threads: list[threading.Thread] = []

    def work(number: int) -> int:
        threads.append(threading.current_thread())
        store.create(f"/in-order-{number}", ephemeral=True)
        return number

    def done(future: "Future[int]") -> None:
        threads.append(threading.current_thread())
        told.append(future.result())

    for number in range(20):
        submitted.thread.submit(lambda number=number: work(number), done)  # type: ignore[misc]
    assert told == [], "not before the loop runs"
    submitted.run(lambda: len(told) == 20)
    assert told == list(range(20))
    assert len({*threads} - {threading.current_thread()}) == 1
    names = submitted.result(lambda: store.children("/"))
    assert {f"in-order-{number}" for number in range(20)} <= set(names)


def test_what_a_store_refuses_is_told_and_the_next_is_done(submitted: Submitted) -> None:
    store = submitted.store
    with pytest.raises(NoNode, match="/missing"):
        submitted.result(lambda: store.get("/missing"))
    assert submitted.result(lambda: store.exists("/missing")) is None


def test_nobody_waits_for_work_that_takes_long(submitted: Submitted) -> None:
    store, may_end = submitted.store, threading.Event()
    told: list[object] = []

    def slow() -> None:
        assert may_end.wait(WITHIN_S)

    submitted.thread.submit(slow, told.append)
    for _ in range(100):
        submitted.thread.submit(lambda: store.exists("/x"), told.append)
    for number in range(50):
        submitted.others.put(number)
        submitted.run(lambda number=number: number in submitted.handled)  # type: ignore[misc]
    assert told == []
    may_end.set()
    submitted.run(lambda: len(told) == 101)


def test_a_watch_is_told_in_the_loop(submitted: Submitted) -> None:
    store = submitted.store
    seen: list[Event] = []
    submitted.loop.watch(store.fileno(), lambda _events: seen.extend(store.events()))
    submitted.result(lambda: store.exists("/watched", watch=True))
    submitted.result(lambda: store.create("/watched", ephemeral=True))
    submitted.run(lambda: WatchFired(WatchKind.CREATED, "/watched") in seen)
    submitted.loop.unwatch(store.fileno())


def test_an_ensemble_that_is_silent_for_longer_than_a_session_holds_up_nothing(zookeeper: ZookeeperServer) -> None:
    """The work fails when kazoo notices, which takes seconds; meanwhile the loop does all else it has to."""
    submitted = Submitted(lambda: opened(zookeeper, 4))
    store = submitted.store
    told: list[Future[Node]] = []
    zookeeper.pause()
    try:
        submitted.thread.submit(lambda: store.get("/"), told.append)
        count = 0
        while not told:
            submitted.others.put(count)
            submitted.run(lambda count=count: count in submitted.handled or bool(told))  # type: ignore[misc]
            count += 1
        assert count > 20, "the loop went on while the work waited"
        assert isinstance(told[0].exception(), SessionSuspended)
        # What is submitted from then on is refused at once: nothing is decided on old knowledge.
        with pytest.raises(SessionSuspended):
            submitted.result(lambda: store.get("/"))
    finally:
        zookeeper.resume()
    submitted.run(lambda: store.state is not SessionState.SUSPENDED)
    submitted.close()
