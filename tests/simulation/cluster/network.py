"""Connections between brokers: what is sent arrives late, in pieces, never, or ends with its connection."""

import select
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import ECONNREFUSED

from tests.simulation.broker import Broker
from tests.simulation.ports import Ports
from tests.simulation.scheduler import FOREVER, Scheduler

MOST_AT_ONCE = 1 << 16


class OutgoingSocket(socket.socket):
    """What a process takes for a TCP socket on its way to another broker."""

    network: "Network"
    far: socket.socket | None
    """The other end, while no cable has it."""

    def setsockopt(self, level: int, option: int, value: int) -> None:  # type: ignore[override]
        if level == socket.SOL_SOCKET:
            super().setsockopt(level, option, value)

    def connect(self, address: tuple[str, int]) -> None:  # type: ignore[override]
        assert self.far is not None, "it connects once"
        self.network.connect(self.far, address[1])
        self.far = None

    def close(self) -> None:
        self.network.ports.disown(self)
        if self.far is not None:
            self.far.close()
        super().close()


class Cable:
    """One connection: carries bytes both ways while its link is up."""

    deadline_ns = FOREVER

    def __init__(self, scheduler: Scheduler, link: tuple[object, object], ends: tuple[socket.socket, socket.socket]):
        self.link = link
        self.is_up = True
        self.is_over = False
        self.has_lost_its_bytes = False
        """Whoever would have sent them again has no power any more."""
        self._scheduler = scheduler
        self._ends = ends
        self._under_way: list[bytes] = [b"", b""]
        """To the second end, and to the first."""
        self._poll = select.poll()
        for end in ends:
            end.setblocking(False)
            self._poll.register(end, select.POLLIN)
            scheduler.readiness.watch(end.fileno(), self)
        self._fds = ends[0].fileno(), ends[1].fileno()
        scheduler.add(self)

    def is_ready(self) -> bool:
        if not self.is_up:
            return False
        if self.has_lost_its_bytes or self._under_way[0] or self._under_way[1]:
            return True
        is_quiet = self._scheduler.readiness.is_quiet
        if is_quiet(self._fds[0]) and is_quiet(self._fds[1]):
            return False
        return bool(self._poll.poll(0))

    def act(self) -> None:
        for at in (0, 1):
            if self.has_lost_its_bytes or not self._carry(at):
                self.end()
                return

    def _carry(self, at: int) -> bool:
        """False when the connection is over."""
        try:
            if len(self._under_way[at]) < MOST_AT_ONCE:
                taken = self._ends[at].recv(self._scheduler.random.choice((1, 100, MOST_AT_ONCE, MOST_AT_ONCE)))
                if not taken and not self._under_way[at]:
                    return False
                self._under_way[at] += taken
        except BlockingIOError:
            pass
        except OSError:
            return False
        try:
            sent = self._ends[1 - at].send(self._under_way[at]) if self._under_way[at] else 0
            self._under_way[at] = self._under_way[at][sent:]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def end(self) -> None:
        self.is_over = True
        self._scheduler.remove(self)
        for end in self._ends:
            end.close()


class Network:
    """Who is where, and which links are down."""

    def __init__(self, ports: Ports, brokers: Callable[[], Mapping[int, Broker]]) -> None:
        self.ports = ports
        self._brokers = brokers
        """By the port of their listener."""
        self._cables: list[Cable] = []
        self._down: set[frozenset[object]] = set()

    def open_socket(self, _family: int, _kind: int) -> OutgoingSocket:
        ours, far = socket.socketpair()
        made = OutgoingSocket(fileno=ours.detach())
        made.setblocking(False)
        made.network, made.far = self, far
        return self.ports.own(made, made.close)

    def connect(self, far: socket.socket, port: int) -> None:
        scheduler = self.ports.scheduler
        scheduler.joint("connects to a broker")
        strand = scheduler.current
        assert strand is not None, "only a process connects"
        to = self._brokers().get(port)
        if to is None or not to.is_running:
            raise ConnectionRefusedError(ECONNREFUSED, "nobody listens")
        cable = Cable(scheduler, (strand.home, to), (far, to.port.connect(0.0)))
        cable.is_up = frozenset(cable.link) not in self._down
        self._cables = [each for each in self._cables if not each.is_over]
        self._cables.append(cable)

    def take_down(self, one: object, other: object) -> None:
        """Nothing arrives any more, and nobody hears of it."""
        self._down.add(frozenset((one, other)))
        self._set({one, other}, is_up=False)

    def bring_up(self, one: object, other: object) -> None:
        """What was sent meanwhile arrives, or the connection has ended."""
        self._down.discard(frozenset((one, other)))
        self._set({one, other}, is_up=True)

    def lose_power(self, home: object) -> None:
        """What nobody has received yet is lost with the machine that sent it, or that was to receive it."""
        for cable in self._cables:
            if home in cable.link and not cable.is_up:
                cable.has_lost_its_bytes = True

    def break_connections(self, one: object, other: object) -> None:
        for cable in self._of({one, other}):
            cable.end()

    def _set(self, ends: set[object], *, is_up: bool) -> None:
        for cable in self._of(ends):
            cable.is_up = is_up
            self.ports.scheduler.stir(cable)

    def _of(self, ends: set[object]) -> list[Cable]:
        return [each for each in self._cables if set(each.link) == ends]

    def close(self) -> None:
        for cable in self._cables:
            with suppress(OSError):
                cable.end()
