"""Connections without a network: socket pairs of the kernel, which take part of what is sent and give part of it."""

import socket
from collections import deque
from collections.abc import Callable

from tests.simulation.epoll import VirtualDescriptors
from tests.simulation.scheduler import Scheduler

HOST, PORT = "127.0.0.1", 9092


class BrokerEnd(socket.socket):
    """What a network process takes for a TCP socket."""

    scheduler: Scheduler
    short_chance = 0.0

    def setsockopt(self, level: int, option: int, value: int) -> None:  # type: ignore[override]
        if level == socket.SOL_SOCKET:
            super().setsockopt(level, option, value)

    def getsockname(self) -> tuple[str, int]:
        return HOST, PORT

    def recv_into(self, buffer: memoryview, nbytes: int = 0, flags: int = 0) -> int:  # type: ignore[override]
        if self.scheduler.random_source(self.short_chance):
            buffer = buffer[: self.scheduler.random.randint(1, max(1, len(buffer) // 4))]
        return super().recv_into(buffer, nbytes, flags)

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        if self.scheduler.random_source(self.short_chance):
            data = data[: self.scheduler.random.randint(1, max(1, len(data)))]
        return super().send(data, flags)


class Port:
    """Where clients knock; every network process has a `Door` to it."""

    def __init__(self, scheduler: Scheduler, descriptors: VirtualDescriptors) -> None:
        self.scheduler = scheduler
        self.descriptors = descriptors
        self.waiting: deque[tuple[BrokerEnd, int]] = deque()
        self.doors: set[int] = set()
        """Their descriptors."""
        self._numbers = 40_000

    def connect(self, short_chance: float) -> socket.socket:
        """The client's end of a connection that nobody has accepted yet."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        end = BrokerEnd(fileno=theirs.detach())
        end.scheduler, end.short_chance = self.scheduler, short_chance
        self._numbers += 1
        self.waiting.append((end, self._numbers))
        for door in self.doors:
            self.descriptors.stir(door)
        return ours

    def close(self) -> None:
        for end, _ in self.waiting:
            end.close()
        self.waiting.clear()


class Door:
    """A listening socket, as one incarnation of a network process has it."""

    def __init__(self, port: Port, accepted: Callable[[BrokerEnd], object]) -> None:
        self._port = port
        self._accepted = accepted
        self._fd = port.descriptors.add(self)
        port.doors.add(self._fd)

    def fileno(self) -> int:
        return self._fd

    def has_events(self) -> bool:
        return bool(self._port.waiting)

    def setblocking(self, flag: bool) -> None:
        assert not flag, "a broker waits for nobody"

    def accept(self) -> tuple[BrokerEnd, tuple[str, int]]:
        if not self._port.waiting:
            raise BlockingIOError
        end, number = self._port.waiting.popleft()
        self._accepted(end)
        return end, (HOST, number)

    def close(self) -> None:
        self._port.doors.discard(self._fd)
        self._port.descriptors.remove(self._fd)
