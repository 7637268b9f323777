"""Connections of this broker to others: requests go out in order, one under way for each destination.

Nothing here blocks: sockets are non-blocking, and names are resolved in a thread. A connection that breaks, is silent
beyond the request's time, or does not speak Kafka's protocol is closed, and the next one is made after a pause that
grows. A request that repeats is sent again on it, until it is answered or the destination is dropped; any other fails,
and the sender decides. Versions are the sender's to choose: a cluster on ZooKeeper fixes them, it does not negotiate.
"""

import errno
import logging
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.image import Broker
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.processes.runtime.name_resolution import Address, NameResolution
from kafkad.wire.broker_frames import FrameReceiver, NotKafka, request_frame

log = logging.getLogger(__name__)

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 100, 1_000
"""As reconnect.backoff.ms; Apache Kafka's controller tries every 100 ms for ever."""


@dataclass(frozen=True, slots=True)
class Destination:
    """One queue of requests. Another address of the same broker is another destination."""

    broker_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.broker_id} at {self.host}:{self.port}"


def inter_broker_destination(brokers: Mapping[int, Broker], broker_id: int, listener: str) -> Destination | None:
    """The address of a broker on the listener between brokers; None while it does not live."""
    broker = brokers.get(broker_id)
    found = [each for each in broker.listeners if each.name == listener] if broker is not None else []
    return Destination(broker_id, found[0].host, found[0].port) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`on_reply` gets the body of the response, valid during the call unless `place` gave the memory.

    `place` is asked for memory for the whole frame (correlation id and header included) when its length is known.
    `on_failure` gets the reason in words; a request with `repeats` fails only when its destination is dropped. While it
    is the next one, `on_refused` hears of each connection that nobody accepts: on that host no such process listens.
    """

    api_key: int
    version: int
    is_flexible: bool
    body: bytes
    on_reply: Callable[[memoryview], None]
    on_failure: Callable[[str], None]
    timeout_ms: int | None = None
    repeats: bool = False
    longest_pause_ms: int = LONGEST_PAUSE_MS
    on_refused: Callable[[], None] | None = None
    place: Callable[[int], memoryview] | None = None


class BrokerConnections:
    """Call `tick` in each pass of the loop; it may sleep until `next_deadline_ms`."""

    def __init__(
        self,
        loop: EventLoop,
        client_id: str,
        patience: ConnectionTimeouts,
        clock: Callable[[], int] = monotonic_ms,
        idle_closed: Callable[[Destination], None] = lambda _to: None,
        log_rate_limit: LogRateLimit | None = None,
    ) -> None:
        """`idle_closed` is called when the peer closes an idle connection. `log_rate_limit` may be shared."""
        said = log_rate_limit or LogRateLimit()
        self._shared = _Shared(loop, NameResolution(loop), client_id, patience, clock, idle_closed, said)
        self._connections: dict[Destination, _Connection] = {}

    def send(self, to: Destination, request: Request) -> None:
        """Queue the request behind those to the same destination."""
        connection = self._connections.get(to)
        if connection is None:
            connection = self._connections[to] = _Connection(self._shared, to)
        connection.requests.append(request)
        connection.tick()

    def drop(self, to: Destination) -> None:
        """Close the connection; its requests fail."""
        connection = self._connections.pop(to, None)
        if connection is not None:
            connection.end("it is not needed any more")

    def tick(self) -> None:
        """Abort what is late, and connect again after pauses."""
        now_ms = self._shared.clock()
        for connection in list(self._connections.values()):
            if connection.deadline_ms is not None and connection.deadline_ms <= now_ms:
                connection.late()

    @property
    def next_deadline_ms(self) -> int | None:
        deadlines = (each.deadline_ms for each in self._connections.values())
        return min((each for each in deadlines if each is not None), default=None)

    def close(self) -> None:
        """Close all connections without calling back."""
        for connection in self._connections.values():
            connection.requests.clear()
            connection.end("")
        self._connections.clear()
        self._shared.names.close()


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all connections of a process have in common."""

    loop: EventLoop
    names: NameResolution
    client_id: str
    patience: ConnectionTimeouts
    clock: Callable[[], int]
    idle_closed: Callable[[Destination], None]
    log_rate_limit: LogRateLimit


class _Connection:
    """States by what is set: `_socket` is None while a name is resolved and during a pause."""

    def __init__(self, shared: _Shared, to: Destination) -> None:
        self.requests: deque[Request] = deque()
        """The first is under way once `_is_sent`."""
        self.deadline_ms: int | None = None
        self._shared = shared
        self._to = to
        self._socket: socket.socket | None = None
        self._addresses: list[Address] = []
        self._is_connected = False
        self._is_sent = False
        self._is_resolving = False
        self._is_over = False
        self._pause_ms = 0
        self._failed_setups = 0
        self._correlation_id = 0
        self._unsent = memoryview(b"")
        self._receiver = FrameReceiver()

    def tick(self) -> None:
        """Send the next request if nothing else is under way."""
        if self._is_over or not self.requests:
            return
        if self._is_connected:
            if not self._is_sent:
                self._begin_request()
        elif self._socket is None and not self._is_resolving and self.deadline_ms is None:
            self._is_resolving = True
            self.deadline_ms = self._shared.clock() + self._shared.patience.setup_after(self._failed_setups)
            self._shared.names.resolve(self._to.host, self._to.port, self._resolved)

    def late(self) -> None:
        """The deadline is over: that of a pause, of a connection attempt, or of the answer."""
        if self._is_sent:
            self._broken("it did not answer in time")
        elif self._socket is not None:
            self._broken("it did not accept the connection in time")
        elif self._is_resolving:
            self._broken("its name was not resolved in time")
        else:
            self.deadline_ms = None
            self.tick()

    def end(self, reason: str) -> None:
        self._is_over = True
        self._close()
        failed, self.requests = self.requests, deque()
        for request in failed:
            request.on_failure(reason)

    # Connecting.

    def _resolved(self, addresses: list[Address], problem: str) -> None:
        if self._is_over or not self._is_resolving:
            return
        self._is_resolving = False
        self._addresses = addresses
        if not addresses:
            self._broken(problem)
        else:
            self._connect()

    def _connect(self) -> None:
        family, address = self._addresses.pop(0)
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._shared.patience.receive_buffer_bytes is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._shared.patience.receive_buffer_bytes)
        self._socket = made
        try:
            made.connect(address)
        except BlockingIOError:
            self._shared.loop.watch(made.fileno(), self._ready, select.EPOLLOUT)
        except OSError as error:
            self._refused(error)
        else:
            self._shared.loop.watch(made.fileno(), self._ready, select.EPOLLIN)
            self._connected()

    def _refused(self, error: OSError) -> None:
        if not self._addresses:
            request = self.requests[0] if self.requests else None
            self._broken(error.strerror or str(error))
            if error.errno == errno.ECONNREFUSED and request is not None and request.on_refused is not None:
                request.on_refused()
            return
        self._close_socket()
        self._connect()

    def _connected(self) -> None:
        self._is_connected = True
        self.deadline_ms, self._failed_setups = None, 0
        self._begin_request()

    # A request and its answer.

    def _begin_request(self) -> None:
        request = self.requests[0]
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._unsent = memoryview(
            request_frame(
                request.api_key,
                request.version,
                self._correlation_id,
                self._shared.client_id,
                request.body,
                is_flexible=request.is_flexible,
            )
        )
        self._is_sent = True
        self.deadline_ms = self._shared.clock() + (request.timeout_ms or self._shared.patience.answer_ms)
        self._send()

    def _send(self) -> None:
        assert self._socket is not None, "only a connected socket sends"
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._broken(error.strerror or str(error))
            return
        self._unsent = self._unsent[sent:]
        both = select.EPOLLIN | select.EPOLLOUT
        self._shared.loop.modify(self._socket.fileno(), both if self._unsent else select.EPOLLIN)

    def _ready(self, events: int) -> None:
        if self._socket is None:
            return
        if not self._is_connected:
            problem = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if problem:
                self._refused(OSError(problem, os.strerror(problem)))
                return
            try:
                self._socket.getpeername()
            except OSError:
                # The event was that of a descriptor which was closed in this pass and had the same number.
                return
            self._shared.loop.modify(self._socket.fileno(), select.EPOLLIN)
            self._connected()
            return
        if self._unsent and events & select.EPOLLOUT:
            self._send()
        if self._socket is not None and events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            self._receive(self._socket)

    def _receive(self, connected: socket.socket) -> None:
        place = self.requests[0].place if self._is_sent and self.requests else None
        try:
            frame = self._receiver.receive(connected, place)
        except BlockingIOError:
            return
        except NotKafka as problem:
            self._broken(str(problem))
            return
        except OSError as error:
            self._broken(error.strerror or str(error))
            return
        if frame is not None:
            self._answered(frame)

    def _answered(self, frame: memoryview) -> None:
        if not self._is_sent or self._unsent or not self.requests:
            self._broken("the peer sent a response with an unknown correlation id")
            return
        request = self.requests[0]
        try:
            body = self._receiver.body_of(frame, request.api_key, self._correlation_id, is_flexible=request.is_flexible)
        except NotKafka as problem:
            self._broken(str(problem))
            return
        self.requests.popleft()
        self._is_sent = False
        self.deadline_ms = None
        self._pause_ms = 0
        request.on_reply(body)
        self.tick()

    # What goes wrong.

    def _broken(self, reason: str) -> None:
        """Close, and pause before the next attempt; the first request fails unless it repeats."""
        self._failed_setups += not self._is_connected
        self._close()
        if not self.requests:
            # The next request makes another connection.
            self._shared.idle_closed(self._to)
            return
        if self._shared.log_rate_limit.is_due((self._to, reason), self._shared.clock()):
            log.warning("%s: %s", self._to, reason)
        self._pause_ms = min(max(self._pause_ms * 2, FIRST_PAUSE_MS), self.requests[0].longest_pause_ms)
        self.deadline_ms = self._shared.clock() + self._pause_ms
        if not self.requests[0].repeats:
            self.requests.popleft().on_failure(reason)

    def _close(self) -> None:
        self._close_socket()
        self._addresses = []
        self._is_resolving = False
        self.deadline_ms = None

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._shared.loop.unwatch(self._socket.fileno())
            self._socket.close()
            self._socket = None
        self._is_connected = self._is_sent = False
        self._unsent = memoryview(b"")
        self._receiver = FrameReceiver()
