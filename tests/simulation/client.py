"""A client of the broker: one connection at a time, on which each request is answered once, in order, or which ends.

Whoever derives from `Client` says what to ask next; a connection that ends hands back what was not answered.
"""

import select
import socket
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.scheduler import FOREVER, MS, Scheduler, Violated
from tests.simulation.sockets import Port
from tests.tools.raw_requests import Received

PATIENCE_NS = 60_000 * MS
"""No request of these clients may take longer than this while nothing is broken."""

Answer = Callable[[bytes | None], None]
"""Called with the body of the reply, None when the connection has ended without one."""


class _Open(NamedTuple):
    correlation: int
    name: str
    answer: Answer
    sent_ns: int


class Client:
    """Acts when something has come in, or at `wake_ns`."""

    def __init__(self, scheduler: Scheduler, port: Port, name: str, *, short_chance: float = 0.0) -> None:
        self.scheduler = scheduler
        self.name = name
        self.wake_ns = scheduler.now_ns
        self.open: deque[_Open] = deque()
        self.reads = True
        self._port = port
        self._short_chance = short_chance
        self._sock: socket.socket | None = None
        self._poll = select.poll()
        self._fd = -1
        self._received = Received()
        self._unsent = b""
        self._correlation = 0

    # As an actor.

    @property
    def deadline_ns(self) -> int:
        return self.wake_ns

    def is_ready(self) -> bool:
        if self.scheduler.now_ns >= self.wake_ns or self._unsent:
            return True
        if self._sock is None or not self.reads or self.scheduler.readiness.is_quiet(self._fd):
            return False
        return bool(self._poll.poll(0))

    def act(self) -> None:
        """Take what has come; then, if it is time, go on."""
        is_due = self._is_due()
        self._pump()
        if self._is_due() or is_due:
            self.step()

    def _is_due(self) -> bool:
        if self.scheduler.now_ns < self.wake_ns:
            return False
        self.wake_ns = FOREVER
        return True

    def step(self) -> None:
        """Ask what is to be asked now, and say by `wake_in` when to go on without an answer."""
        raise NotImplementedError

    def wake_in(self, delay_ms: float) -> None:
        self.wake_ns = min(self.wake_ns, self.scheduler.now_ns + int(delay_ms * MS))

    def note(self, what: str) -> None:
        self.scheduler.note(self.name, what)

    # The connection.

    @property
    def is_connected(self) -> bool:
        return self._sock is not None

    def connect(self) -> None:
        assert self._sock is None, "one connection at a time"
        self._sock = self._port.connect(self._short_chance)
        self._poll = select.poll()
        self._poll.register(self._sock, select.POLLIN)
        self._fd = self._sock.fileno()
        self.scheduler.readiness.watch(self._fd, self)
        self._received = Received()
        self._unsent = b""

    def ask(self, name: str, make: Callable[[int], bytes], answer: Answer | None) -> None:
        """Send the request that `make` makes with its correlation id; without `answer` no reply is expected."""
        assert self._sock is not None, "not connected"
        self._correlation += 1
        if answer is not None:
            self.open.append(_Open(self._correlation, name, answer, self.scheduler.now_ns))
        self.note(f"asks {self._correlation}: {name}")
        self._unsent += make(self._correlation)
        self._write()

    def _pump(self) -> None:
        if self._sock is not None:
            self._write()
        if self._sock is not None and self.reads:
            self._read()

    def _write(self) -> None:
        assert self._sock is not None
        try:
            while self._unsent:
                size = len(self._unsent)
                if self.scheduler.random_source(self._short_chance):
                    size = self.scheduler.random.randint(1, size)
                self._unsent = self._unsent[self._sock.send(self._unsent[:size]) :]
                if size < len(self._unsent):
                    return
        except BlockingIOError:
            return
        except ConnectionError:
            # What it has answered before is still there to be read.
            self._unsent = b""

    def _read(self) -> None:
        assert self._sock is not None
        is_over = False
        try:
            while True:
                data = self._sock.recv(1 << 18)
                if not data:
                    is_over = True
                    break
                self._received.add(data)
        except BlockingIOError:
            pass
        except ConnectionError:
            is_over = True
        while (reply := self._received.take()) is not None:
            self._answered(*reply)
        if is_over and self._sock is not None:
            self.note("has lost its connection")
            self.hang_up()

    def _answered(self, correlation: int, body: bytes) -> None:
        if not self.open or self.open[0].correlation != correlation:
            waited = [row.correlation for row in self.open]
            raise Violated(f"{self.name} got a reply to {correlation}, it waits for those to {waited}")
        row = self.open.popleft()
        row.answer(body)

    def hang_up(self) -> None:
        """Close it, or notice that it is closed."""
        if self._sock is None:
            return
        self._sock.close()
        self._sock, self._unsent = None, b""
        lost, self.open = self.open, deque()
        for row in lost:
            row.answer(None)
        self.disconnected()

    def disconnected(self) -> None:
        self.wake_in(self.scheduler.random.choice((1, 5, 50)))

    def check_patience(self) -> None:
        if self.open and self.scheduler.now_ns - self.open[0].sent_ns > PATIENCE_NS:
            row = self.open[0]
            raise Violated(f"{self.name} has waited too long for the answer to {row.correlation}: {row.name}")
