"""Links between incarnations without ZeroMQ: what is sent arrives when the scheduler delivers it, in order, or never.

The descriptor is as treacherous as ZeroMQ's: whoever looks into a link, or sends through it, takes the sign that
something had come in away with him.
"""

from collections import deque
from typing import ClassVar

from tests.simulation.epoll import VirtualDescriptors
from tests.simulation.scheduler import FOREVER, Scheduler


class Wire:
    """One direction between two incarnations."""

    deadline_ns = FOREVER

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.name = name
        self.under_way: deque[bytes] = deque()
        self.receiver: SimulatedLink | None = None
        self.is_cut = False
        self._scheduler = scheduler

    def is_ready(self) -> bool:
        return bool(self.under_way) and self.receiver is not None

    def act(self) -> None:
        """Some of what is under way arrives."""
        assert self.receiver is not None, "not ready"
        for _ in range(self._scheduler.random.randint(1, len(self.under_way))):
            self.receiver.arrived.append(self.under_way.popleft())
        self.receiver.sign()
        if not self.under_way:
            self._scheduler.remove(self)

    def take(self, frame: bytes) -> None:
        """Only while something is under way has a wire anything to do."""
        if not self.is_cut:
            if not self.under_way:
                self._scheduler.add(self)
            self.under_way.append(frame)

    def cut(self, keep: int) -> None:
        """The sender is gone: so much of what it had sent is on its way all the same."""
        self.is_cut = True
        while len(self.under_way) > keep:
            self.under_way.pop()


class Exchange:
    """Where the two ends of a link meet, by the name of their endpoint."""

    def __init__(self, scheduler: Scheduler, descriptors: VirtualDescriptors) -> None:
        self.scheduler = scheduler
        self.descriptors = descriptors
        self._wires: dict[tuple[str, bool], Wire] = {}

    def wire(self, endpoint: str, *, to_binder: bool) -> Wire:
        wire = self._wires.get((endpoint, to_binder))
        if wire is None:
            name = f"{endpoint.rpartition('/')[2]}{'<' if to_binder else '>'}"
            wire = self._wires[endpoint, to_binder] = Wire(self.scheduler, name)
        return wire


class SimulatedLink:
    """The `Link` of `kafkad.adapters.links.messaging`, by name and behaviour."""

    exchange: ClassVar[Exchange]
    gives_signs = True

    def __init__(self, context: object, endpoint: str, *, bind: bool, **_limits: int) -> None:
        exchange = self.exchange
        self._scheduler = exchange.scheduler
        self._descriptors = exchange.descriptors
        self._out = exchange.wire(endpoint, to_binder=not bind)
        self._in = exchange.wire(endpoint, to_binder=bind)
        self._in.receiver = self
        self._scheduler.stir(self._in)
        self.arrived: deque[bytes] = deque()
        self.needs_check = True
        self.backlog = 0
        self.fd = self._descriptors.add(self)

    def has_events(self) -> bool:
        return self.fd in self._descriptors.signed

    def sign(self) -> None:
        """Something has come in."""
        if self.fd in self._descriptors.sources:
            self._descriptors.signed.add(self.fd)
            self._descriptors.stir(self.fd)

    def _take_sign(self) -> None:
        self._descriptors.signed.discard(self.fd)

    def send(self, frame: bytes | memoryview) -> None:
        self._scheduler.joint("sends by link")
        self.needs_check = True
        self._take_sign()
        self._out.take(bytes(frame))

    def flush(self) -> bool:
        return True

    def receive(self, limit: int = 1000) -> list[bytes]:
        self._take_sign()
        self.needs_check = len(self.arrived) > limit
        return [self.arrived.popleft() for _ in range(min(limit, len(self.arrived)))]

    def has_input(self) -> bool:
        self._take_sign()
        self.needs_check = False
        return bool(self.arrived)

    def close(self) -> None:
        self._descriptors.remove(self.fd)
        self._in.receiver = None
        self._in.under_way.clear()
        self._out.cut(self._scheduler.random.randint(0, len(self._out.under_way)))
        self.arrived.clear()
