"""Connections of this broker to other brokers: requests are sent in order, one in flight for each destination.

Nothing here blocks: sockets are non-blocking, and a thread resolves names. A connection is closed when it fails, when a
request times out, or when the peer does not speak Kafka's protocol. The next attempt follows after a growing backoff. A
request with `repeats` is sent again until its response arrives or the destination is dropped; any other request fails,
and the sender decides. The sender also chooses API versions: a cluster on ZooKeeper does not negotiate them.
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
"""The backoff between two attempts. Apache Kafka's controller retries every 100 ms without a limit."""


@dataclass(frozen=True, slots=True)
class Destination:
    """One queue of requests. Another address of the same broker is another destination."""

    broker_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.broker_id} at {self.host}:{self.port}"


def inter_broker_destination(brokers: Mapping[int, Broker], broker_id: int, listener: str) -> Destination | None:
    """The address of a broker on the inter-broker listener; None while the broker is not alive."""
    broker = brokers.get(broker_id)
    found = [each for each in broker.listeners if each.name == listener] if broker is not None else []
    return Destination(broker_id, found[0].host, found[0].port) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`on_reply` gets the body of the response, valid during the call unless `allocate` returned the memory.

    `allocate` returns memory for the whole frame (correlation id and header included) when its length is known.
    `on_failure` gets the reason as text; a request with `repeats` fails only when its destination is dropped. While
    this request is the next one, `on_refused` is called for each refused connection (ECONNREFUSED): no process listens
    there.
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
    allocate: Callable[[int], memoryview] | None = None


class BrokerConnections:
    """Call `tick` in each pass of the loop; it may sleep until `next_deadline_ms`."""

    def __init__(
        self,
        loop: EventLoop,
        client_id: str,
        timeouts: ConnectionTimeouts,
        clock: Callable[[], int] = monotonic_ms,
        idle_closed: Callable[[Destination], None] = lambda _to: None,
        log_rate_limit: LogRateLimit | None = None,
    ) -> None:
        """`idle_closed` is called when the peer closes an idle connection. `log_rate_limit` may be shared."""
        limit = log_rate_limit or LogRateLimit()
        self._shared = _Shared(loop, NameResolution(loop), client_id, timeouts, clock, idle_closed, limit)
        self._connections: dict[Destination, _Connection] = {}

    def send(self, to: Destination, request: Request) -> None:
        """Append the request to the queue of its destination."""
        connection = self._connections.get(to)
        if connection is None:
            connection = self._connections[to] = _Connection(self._shared, to)
        connection.requests.append(request)
        connection.tick()

    def drop(self, to: Destination) -> None:
        """Close the connection; its requests fail."""
        connection = self._connections.pop(to, None)
        if connection is not None:
            connection.abort("the connection is no longer required")

    def tick(self) -> None:
        """Time out requests and connection attempts, and connect again after a backoff."""
        now_ms = self._shared.clock()
        for connection in list(self._connections.values()):
            if connection.deadline_ms is not None and connection.deadline_ms <= now_ms:
                connection.on_deadline()

    @property
    def next_deadline_ms(self) -> int | None:
        deadlines = (each.deadline_ms for each in self._connections.values())
        return min((each for each in deadlines if each is not None), default=None)

    def close(self) -> None:
        """Close all connections without calling back."""
        for connection in self._connections.values():
            connection.requests.clear()
            connection.abort("")
        self._connections.clear()
        self._shared.names.close()


@dataclass(frozen=True, slots=True)
class _Shared:
    """Shared by all connections of a process."""

    loop: EventLoop
    names: NameResolution
    client_id: str
    timeouts: ConnectionTimeouts
    clock: Callable[[], int]
    idle_closed: Callable[[Destination], None]
    log_rate_limit: LogRateLimit


class _Connection:
    """`_socket` is None while the name is resolved and during a backoff."""

    def __init__(self, shared: _Shared, to: Destination) -> None:
        self.requests: deque[Request] = deque()
        """The first request is in flight once `_is_sent`."""
        self.deadline_ms: int | None = None
        self._shared = shared
        self._to = to
        self._socket: socket.socket | None = None
        self._addresses: list[Address] = []
        self._is_connected = False
        self._is_sent = False
        self._is_resolving = False
        self._is_closed = False
        self._pause_ms = 0
        self._failed_setups = 0
        self._correlation_id = 0
        self._unsent = memoryview(b"")
        self._receiver = FrameReceiver()

    def tick(self) -> None:
        """Send the next request if none is in flight."""
        if self._is_closed or not self.requests:
            return
        if self._is_connected:
            if not self._is_sent:
                self._begin_request()
        elif self._socket is None and not self._is_resolving and self.deadline_ms is None:
            self._is_resolving = True
            self.deadline_ms = self._shared.clock() + self._shared.timeouts.setup_after(self._failed_setups)
            self._shared.names.resolve(self._to.host, self._to.port, self._on_resolved)

    def on_deadline(self) -> None:
        """The deadline of a backoff, a connection attempt or a response has passed."""
        if self._is_sent:
            self._fail("no response within the request timeout")
        elif self._socket is not None:
            self._fail("no connection within the setup timeout")
        elif self._is_resolving:
            self._fail("the host name was not resolved within the setup timeout")
        else:
            self.deadline_ms = None
            self.tick()

    def abort(self, reason: str) -> None:
        """Close the connection; all its requests fail with `reason`."""
        self._is_closed = True
        self._close()
        failed, self.requests = self.requests, deque()
        for request in failed:
            request.on_failure(reason)

    # Connecting.

    def _on_resolved(self, addresses: list[Address], problem: str) -> None:
        if self._is_closed or not self._is_resolving:
            return
        self._is_resolving = False
        self._addresses = addresses
        if not addresses:
            self._fail(problem)
        else:
            self._connect()

    def _connect(self) -> None:
        family, address = self._addresses.pop(0)
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._shared.timeouts.receive_buffer_bytes is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._shared.timeouts.receive_buffer_bytes)
        self._socket = made
        try:
            made.connect(address)
        except BlockingIOError:
            self._shared.loop.watch(made.fileno(), self._on_ready, select.EPOLLOUT)
        except OSError as error:
            self._connect_failed(error)
        else:
            self._shared.loop.watch(made.fileno(), self._on_ready, select.EPOLLIN)
            self._on_connected()

    def _connect_failed(self, error: OSError) -> None:
        if not self._addresses:
            request = self.requests[0] if self.requests else None
            self._fail(error.strerror or str(error))
            if error.errno == errno.ECONNREFUSED and request is not None and request.on_refused is not None:
                request.on_refused()
            return
        self._close_socket()
        self._connect()

    def _on_connected(self) -> None:
        self._is_connected = True
        self.deadline_ms, self._failed_setups = None, 0
        self._begin_request()

    # A request and its response.

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
        self.deadline_ms = self._shared.clock() + (request.timeout_ms or self._shared.timeouts.response_ms)
        self._send()

    def _send(self) -> None:
        assert self._socket is not None, "only a connected socket sends"
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._fail(error.strerror or str(error))
            return
        self._unsent = self._unsent[sent:]
        both = select.EPOLLIN | select.EPOLLOUT
        self._shared.loop.modify(self._socket.fileno(), both if self._unsent else select.EPOLLIN)

    def _on_ready(self, events: int) -> None:
        if self._socket is None:
            return
        if not self._is_connected:
            problem = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if problem:
                self._connect_failed(OSError(problem, os.strerror(problem)))
                return
            try:
                self._socket.getpeername()
            except OSError:
                # The event belongs to a descriptor of the same number that was closed in this pass.
                return
            self._shared.loop.modify(self._socket.fileno(), select.EPOLLIN)
            self._on_connected()
            return
        if self._unsent and events & select.EPOLLOUT:
            self._send()
        if self._socket is not None and events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            self._receive(self._socket)

    def _receive(self, connected: socket.socket) -> None:
        allocate = self.requests[0].allocate if self._is_sent and self.requests else None
        try:
            frame = self._receiver.receive(connected, allocate)
        except BlockingIOError:
            return
        except NotKafka as problem:
            self._fail(str(problem))
            return
        except OSError as error:
            self._fail(error.strerror or str(error))
            return
        if frame is not None:
            self._handle_response(frame)

    def _handle_response(self, frame: memoryview) -> None:
        if not self._is_sent or self._unsent or not self.requests:
            self._fail("the peer sent a response with an unknown correlation id")
            return
        request = self.requests[0]
        try:
            body = self._receiver.body_of(frame, request.api_key, self._correlation_id, is_flexible=request.is_flexible)
        except NotKafka as problem:
            self._fail(str(problem))
            return
        self.requests.popleft()
        self._is_sent = False
        self.deadline_ms = None
        self._pause_ms = 0
        request.on_reply(body)
        self.tick()

    # Failures.

    def _fail(self, reason: str) -> None:
        """Close the connection and begin a backoff; the first request fails unless it repeats."""
        self._failed_setups += not self._is_connected
        self._close()
        if not self.requests:
            # The next request opens another connection.
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
