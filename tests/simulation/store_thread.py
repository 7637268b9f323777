"""The thread of the controller process that waits for the coordination store."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.simulation.scheduler import FOREVER, Scheduler, Strand

STORE_THREAD = "store"


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


class Event:
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
