"""What is replaced for brokers of a cluster besides what is for any: ZooKeeper, its thread, and sockets to others."""

import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from kafkad.processes.controller.cluster import session
from kafkad.processes.runtime import broker_connections
from kafkad.processes.supervisor import resources
from tests.simulation.broker import Broker
from tests.simulation.cluster.ensemble import Ensemble
from tests.simulation.cluster.network import Network
from tests.simulation.ports import Patch, Ports, Threads
from tests.simulation.scheduler import FOREVER, Scheduler, Strand

STORE_THREAD = "zookeeper"


class _Thread(Strand):
    """It ends with its process."""

    def is_ready(self) -> bool:
        return not self.process.is_over and super().is_ready()


class StoreThread:
    """A pool of one thread, which waits as processes do, and is held up as they are."""

    deadline_ns = FOREVER

    def __init__(self, scheduler: Scheduler, owner: Strand) -> None:
        self._scheduler = scheduler
        self._owner = owner
        self._jobs: deque[Callable[[], None]] = deque()
        self._running: _Thread | None = None
        scheduler.add(self)

    def submit(self, work: Callable[[], None]) -> "Future[Any]":
        """`HelperThreads` has a future of its own."""
        self._jobs.append(work)
        self._scheduler.stir(self)
        return Future()

    def has_events(self) -> bool:
        """The work that was begun is done."""
        return self._running is None or self._running.is_over

    def is_ready(self) -> bool:
        if self._owner.is_over:
            return False
        return self.has_events() and (bool(self._jobs) or self._running is not None)

    def act(self) -> None:
        self._bury()
        if self._jobs:
            name = f"{self._owner.name}/store"
            self._running = _Thread(self._scheduler, name, self._job(self._jobs.popleft()), home=self._owner.home)
            self._running.process = self._owner
            self._scheduler.add(self._running)

    def _job(self, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            finally:
                self._scheduler.stir(self)
                self._scheduler.stir(self._owner)

        return run

    def _bury(self) -> None:
        if self._running is not None:
            self._scheduler.remove(self._running)
            assert self._running.failure is None, f"a job has failed: {self._running.failure!r}"
            self._running = None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """By its process, which waits for what was begun."""
        if cancel_futures:
            self._jobs.clear()
        while self._jobs or not self.has_events():
            self._scheduler.sleep(self, 1.0)
        self.forget()

    def forget(self) -> None:
        """Its process has died."""
        self._jobs.clear()
        if self._running is not None and not self._running.is_over:
            self._running.kill()
        if self._running is not None:
            self._scheduler.remove(self._running)
        self._running = None
        self._scheduler.remove(self)


class _Timer:
    """What is only said is not played."""

    def __init__(self, *_: object) -> None:
        self.finished = threading.Event()

    def start(self) -> None: ...

    def cancel(self) -> None: ...


class _Event:
    """A `threading.Event` that is waited for in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiter: Strand | None = None

    def has_events(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._scheduler.stir(self._waiter)

    def wait(self, seconds: float) -> bool:
        if not self._is_set:
            self._waiter = self._scheduler.current
            self._scheduler.sleep(self, seconds)
        return self._is_set


class _Listener(socket.socket):
    """What a supervisor takes for a socket that is bound; `Port` is where others knock."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self._address = host, port

    def getsockname(self) -> tuple[str, int]:
        return self._address


class ClusterPorts(Ports):
    """Those of all brokers of one run."""

    def __init__(self, scheduler: Scheduler, brokers: Callable[[], Mapping[int, Broker]]) -> None:
        super().__init__(scheduler)
        self.ensemble = Ensemble(self)
        self.network = Network(self, brokers)

    def _threads(self, max_workers: int, thread_name_prefix: str) -> Threads:
        if thread_name_prefix != STORE_THREAD:
            return super()._threads(max_workers, thread_name_prefix)
        owner = self.scheduler.current
        assert owner is not None, "only a process has threads"
        thread = StoreThread(self.scheduler, owner.process)
        return self.own(thread, thread.forget)  # type: ignore[return-value]

    def patches(self) -> list[Patch]:
        sockets = SimpleNamespace(**{**vars(socket), "socket": self.network.open_socket})
        return [
            *super().patches(),
            (session, "ZookeeperStore", self.ensemble.open),
            (session, "threading", SimpleNamespace(Event=lambda: _Event(self.scheduler), Timer=_Timer)),
            (broker_connections, "socket", sockets),
            (resources, "bind_listener", _Listener),
            (resources, "start_listening", lambda _sockets, _backlog: None),
        ]

    @property
    def broker(self) -> Broker:
        """The one that acts."""
        strand = self.scheduler.current
        assert strand is not None and isinstance(strand.home, Broker), "a broker acts"
        return strand.home

    def close(self) -> None:
        self.network.close()
        self.ensemble.close()
