"""An epoll that waits in virtual time: real descriptors are looked at, simulated ones are asked."""

import select
from collections.abc import Callable
from typing import Protocol

from tests.simulation.scheduler import Scheduler

FIRST_VIRTUAL = 1 << 20
"""Descriptors from here on are no descriptors of this process."""


class Source(Protocol):
    """Something with a virtual descriptor."""

    def has_events(self) -> bool: ...


class VirtualDescriptors:
    """Numbers for what has no descriptor of the kernel."""

    def __init__(self) -> None:
        self._next = FIRST_VIRTUAL
        self.sources: dict[int, Source] = {}
        self.signed: set[int] = set()
        """Of those that give a sign: these have events."""
        self.waiters: dict[int, Callable[[], None]] = {}
        """What stirs who waits at them."""

    def add(self, source: Source) -> int:
        self._next += 1
        self.sources[self._next] = source
        return self._next

    def gives_signs(self, fd: int) -> bool:
        return getattr(self.sources.get(fd), "gives_signs", False)

    def stir(self, fd: int) -> None:
        """It may have events now."""
        if fd in self.waiters:
            self.waiters[fd]()

    def remove(self, fd: int) -> None:
        self.sources.pop(fd, None)
        self.waiters.pop(fd, None)
        self.signed.discard(fd)


class SimulatedEpoll:
    """`select.epoll` as far as the broker uses it."""

    def __init__(self, scheduler: Scheduler, descriptors: VirtualDescriptors) -> None:
        self._scheduler = scheduler
        self._descriptors = descriptors
        self._real = select.epoll()
        self._fd = self._real.fileno()
        self._waiter = scheduler.current
        """The process whose it is."""
        scheduler.readiness.watch(self._fd, self._waiter)
        self._virtual: dict[int, int] = {}
        self._to_be_asked: list[int] = []
        """Those of them that give no sign."""
        self._edge_triggered: set[int] = set()
        self._edges: dict[int, int] = {}
        """Seen by who asked whether there are events, and not told yet."""

    def register(self, fd: int, eventmask: int = select.EPOLLIN) -> None:
        if fd < FIRST_VIRTUAL:
            self._real.register(fd, eventmask)
            if eventmask & select.EPOLLET:
                self._edge_triggered.add(fd)
        else:
            assert fd not in self._virtual, "registered twice"
            self._virtual[fd] = eventmask
            self._descriptors.waiters[fd] = self._stir
            self._stir()
            if not self._descriptors.gives_signs(fd):
                self._to_be_asked.append(fd)

    def modify(self, fd: int, eventmask: int) -> None:
        assert fd < FIRST_VIRTUAL, "nobody changes what he wants to hear of a link"
        self._real.modify(fd, eventmask)

    def unregister(self, fd: int) -> None:
        if fd < FIRST_VIRTUAL:
            self._real.unregister(fd)
            self._edge_triggered.discard(fd)
            self._edges.pop(fd, None)
        else:
            del self._virtual[fd]
            self._descriptors.waiters.pop(fd, None)
            if fd in self._to_be_asked:
                self._to_be_asked.remove(fd)

    def _stir(self) -> None:
        self._scheduler.stir(self._waiter)

    def _virtual_events(self) -> list[tuple[int, int]]:
        sources = self._descriptors.sources
        return [(fd, select.EPOLLIN) for fd in self._virtual if fd in sources and sources[fd].has_events()]

    def _real_events(self) -> list[tuple[int, int]]:
        found = dict(self._real.poll(0))
        self._edges |= {fd: events for fd, events in found.items() if fd in self._edge_triggered}
        return list((found | self._edges).items())

    def has_events(self) -> bool:
        signed, sources = self._descriptors.signed, self._descriptors.sources
        if signed and not signed.isdisjoint(self._virtual):
            return True
        for fd in self._to_be_asked:
            source = sources.get(fd)
            if source is not None and source.has_events():
                return True
        if not self._edges and self._scheduler.readiness.is_quiet(self._fd):
            return False
        return bool(self._real_events())

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        self._scheduler.sleep(self, timeout)
        events = self._real_events()
        self._edges.clear()
        return events + self._virtual_events()

    def close(self) -> None:
        if not self._real.closed:
            self._scheduler.readiness.unwatch(self._fd)
            self._real.close()


class SimulatedPoll:
    """`select.poll` for a process that waits for a few descriptors of its own."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._real = select.epoll()
        scheduler.readiness.watch(self._real.fileno(), scheduler.current)
        self.register = self._real.register
        self.unregister = self._real.unregister

    def has_events(self) -> bool:
        return bool(self._real.poll(0))

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        self._scheduler.sleep(self, timeout_ms / 1000)
        return self._real.poll(0)
