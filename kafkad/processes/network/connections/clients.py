"""All connections of a network process: requests go to their handlers in order, replies to the socket in order.

A faulty connection is closed with a log line of peer and cause, one a minute for each address. Other connections are
not affected.
"""

import heapq
import select
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic_ns

from kafkad.adapters.shared_memory.arena import Arena
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.metrics.catalogue import CONNECTIONS, CONNECTIONS_CLOSED, CONNECTIONS_CREATED, request_index
from kafkad.core.request_context import ANONYMOUS, ClientIdentity, RequestContext
from kafkad.handlers.requests.failures import reason_to_close
from kafkad.processes.network.connections.acceptor import Accepted
from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.frame_reader import FrameReader
from kafkad.processes.network.connections.frames import Frame, Unacceptable
from kafkad.processes.network.connections.graceful_close import close_gracefully, is_awaited, shut_down_writing
from kafkad.processes.network.connections.loop_pass import CONTINUED_PER_PASS, ReadyConnections
from kafkad.processes.network.connections.unread_replies import UnreadReplies
from kafkad.processes.network.logs.page_cache_prefetch import PageCachePrefetch
from kafkad.processes.runtime.peer_log import PeerLog, reason_of
from kafkad.processes.runtime.turns import COSTLY_BYTES, Turns
from kafkad.wire.api_table import API_VERSIONS, APIS, PRODUCE
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage

_READ, _WRITE = select.EPOLLIN, select.EPOLLOUT
STARVED_MISSES = 16
"""The limit of failed allocations in one pass: space that is too small for one request may be enough for another."""
_HANG_UP = select.EPOLLHUP | select.EPOLLERR

Start = Callable[[Connection, Frame, RequestContext], None]
"""Starts a request. Sets `exclusive_in_flight` when the response comes later. Raises MalformedRequest."""


class Clients:
    """The connections and their epoll registrations."""

    _start: Start
    on_closed: Callable[[Connection], None]
    """Called with each closed connection, for the requests in flight on it."""

    def __init__(
        self,
        epoll: select.epoll,
        block: CounterBlock,
        *,
        reader: FrameReader,
        ready: ReadyConnections,
        arena: Arena,
        prefetch: PageCachePrefetch,
        unread: UnreadReplies,
        turns: Turns,
        peer_log: PeerLog,
    ) -> None:
        self._epoll = epoll
        self._by_fd: dict[int, Connection] = {}
        self._block = block
        self.reader = reader
        self._ready = ready
        self.unread = unread
        unread.connections = self._by_fd.values
        self._arena = arena
        self.prefetch = prefetch
        self._turns = turns
        self._queued: set[Connection] = set()
        """Connections with a queued parked request."""
        self.queued_bytes = 0
        """The total size of the queued requests."""
        self._peer_log = peer_log
        self._numbers = 0
        self._muted: list[tuple[int, int, Connection]] = []
        self.now_ms = 0
        self.is_closing = False

    def __len__(self) -> int:
        return len(self._by_fd)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._by_fd.values())

    def reply_ready(self, connection: Connection) -> None:
        """A reply is complete: it is sent at the end of the pass."""
        self._ready.add(connection)

    def serve(self, start: Start) -> None:
        """Set `start`, the last part of the composition: it depends on this object."""
        self._start = start

    def get(self, fd: int) -> Connection | None:
        return self._by_fd.get(fd)

    def add(self, accepted: Accepted) -> None:
        self._numbers += 1
        client = ClientIdentity(ANONYMOUS, "", accepted.host)
        connection = Connection(accepted.sock, self._numbers, accepted.peer, client, accepted.context, self.now_ms)
        self._by_fd[connection.fd] = connection
        connection.interest = _READ
        self._epoll.register(connection.fd, _READ)
        self._block[CONNECTIONS_CREATED] += 1
        self._block[CONNECTIONS] = len(self._by_fd)

    def handle(self, connection: Connection, events: int) -> None:
        """Handle the events that epoll reports for one connection."""
        try:
            if events & _READ:
                for frame in self.reader.receive(connection, self.now_ms):
                    self._arrived(connection, frame)
                if connection.is_finished:
                    self._stop_receiving(connection)
                    return
                if connection.is_blocked() or self.reader.starved or self.reader.space.crowded:
                    self._ready.add(connection)
            elif events & _HANG_UP:
                self.close(connection, None)
                return
            if events & _WRITE:
                unsent = connection.out_bytes
                connection.send(self.prefetch.is_cached, self.prefetch.check)
                if connection.out_bytes != unsent:
                    connection.last_active_ms = self.now_ms
                self._ready.add(connection)
        except Unacceptable as problem:
            self.reject(connection, str(problem))
        except OSError as error:
            self.close(connection, reason_of(error))

    def _stop_receiving(self, connection: Connection) -> None:
        """Stop reading. Earlier requests are still completed: the peer may have closed only its sending direction."""
        self.reader.forget(connection)
        if connection.replies or connection.out:
            connection.is_finished = True
            self._ready.add(connection)
        else:
            self.close(connection, None)

    def reject(self, connection: Connection, reason: str) -> None:
        """Stop reading after an invalid request. Earlier requests are still completed."""
        self._peer_log.closing(connection.host, self.now_ms, connection.peer, reason)
        self._stop_receiving(connection)

    def _arrived(self, connection: Connection, frame: Frame) -> None:
        """Start a complete request, or park it until earlier requests are completed."""
        connection.received_ns = monotonic_ns()
        if not connection.may_start(frame.request_class) or self.unread.must_wait(connection, frame.header.api_key):
            connection.parked = frame
        elif len(frame.view) > COSTLY_BYTES and frame.header.api_key != PRODUCE:
            connection.parked = frame
            self._queue(connection, len(frame.view))
        else:
            self._begin(connection, frame)

    def _queue(self, connection: Connection, size: int) -> None:
        if connection not in self._queued:
            self._queued.add(connection)
            self.queued_bytes += size
            self._turns.add(size, self._start_parked(connection, size))

    def _start_parked(self, connection: Connection, size: int) -> Iterator[None]:
        """Start the parked request, unless it has to wait again."""
        self._queued.discard(connection)
        self.queued_bytes -= size
        frame = connection.parked
        if frame is None or not self._accepts_requests(connection) or not connection.may_start(frame.request_class):
            return
        if not self.unread.must_wait(connection, frame.header.api_key):
            connection.parked = None
            self._begin(connection, frame)
            self._ready.add(connection)
        yield from ()

    def _begin(self, connection: Connection, frame: Frame) -> None:
        connection.is_new = False
        header = frame.header
        api = APIS.get(header.api_key)
        if api is None:
            self._discard(frame)
            self.reject(connection, f"unknown API key {header.api_key} (version {header.version})")
        elif not api.min_version <= header.version <= api.max_version and header.api_key != API_VERSIONS:
            self._discard(frame)
            self.reject(connection, f"{api.name} version {header.version} is not supported")
        else:
            self._block[request_index(header.api_key, header.version)] += 1
            self._start_request(connection, frame)

    def _start_request(self, connection: Connection, frame: Frame) -> None:
        before = len(connection.replies)
        try:
            self._start(connection, frame, connection.context_of(frame.header, self.now_ms))
        except (MalformedRequest, UnencodableMessage) as error:
            connection.keep_replies(before)
            self.reject(connection, reason_to_close(frame.header, error))
        except Exception as bug:  # noqa: BLE001  this process only reads shared state
            self.close(connection, reason_to_close(frame.header, bug))

    def _discard(self, frame: Frame) -> None:
        if frame.arena_extent is not None:
            self._arena.release(frame.arena_extent)

    def flush(self) -> None:
        """End of a loop pass: send ready replies, and continue requests that waited for them."""
        while self._ready:
            now_ns = monotonic_ns()
            for connection in self._ready.take():
                if not connection.closed:
                    self._advance(connection, now_ns)

    def _advance(self, connection: Connection, now_ns: int) -> None:
        connection.queue_ready_replies(self._block, now_ns)
        try:
            connection.send(self.prefetch.is_cached, self.prefetch.check)
        except OSError as error:
            self.close(connection, reason_of(error))
            return
        if (connection.has_waiting_requests or connection.parked is not None) and not self.is_closing:
            self._start_next(connection)
            if connection.closed:
                return
        if connection.is_finished and not (connection.replies or connection.out or connection.parked):
            self.close(connection, None)
            return
        if connection.is_quiet and not self._accepts_requests(connection):
            shut_down_writing(connection.sock)
        self._set_interest(connection)

    def _start_next(self, connection: Connection) -> None:
        """Start requests that waited for earlier requests, if allowed now."""
        if connection in self.reader.next_pass or not connection.may_start(connection.waiting_class()):
            return
        if self.unread.must_wait(connection, connection.waiting_key()):
            return
        parked = connection.parked
        if parked is None:
            self._resume(connection)
        elif len(parked.view) > COSTLY_BYTES and parked.header.api_key != PRODUCE:
            self._queue(connection, len(parked.view))
        else:
            connection.parked = None
            self._begin(connection, parked)

    def _resume(self, connection: Connection) -> bool:
        """Continue waiting requests; False if they have to wait for space again."""
        try:
            for frame in self.reader.resume(connection):
                self._arrived(connection, frame)
        except Unacceptable as problem:
            self.reject(connection, str(problem))
        return not self.reader.is_waiting(connection)

    def _set_interest(self, connection: Connection) -> None:
        interest = _WRITE if connection.out and not connection.is_prefetching else 0
        if connection.is_muted:
            heapq.heappush(self._muted, (connection.muted_until_ms, connection.number, connection))
        elif self._is_read(connection):
            interest |= _READ
        if interest != connection.interest:
            if interest & _READ and not connection.interest & _READ:
                # The broker did not read from the connection until now, so the time does not count as idle.
                connection.last_active_ms = self.now_ms
            connection.interest = interest
            self._epoll.modify(connection.fd, interest)

    def _is_read(self, connection: Connection) -> bool:
        reader = self.reader
        waits_for_memory = connection in reader.starved or connection in reader.space.crowded
        if not self._accepts_requests(connection) or connection.is_finished or waits_for_memory:
            return False
        return connection.filling is not None or not connection.is_blocked()

    def continue_some(self, waiting: dict[Connection, None]) -> None:
        """At the end of the pass, continue some of the waiting connections."""
        for connection in list(islice(waiting, CONTINUED_PER_PASS)):
            del waiting[connection]
            self._ready.add(connection)

    def resume_starved(self) -> None:
        """Continue connections that wait for arena space, in order."""
        queue, misses = self.reader.places.queue, 0
        for connection, size in list(queue.waiting.items()):
            if misses == STARVED_MISSES or not queue.may_take(connection, size):
                return
            if self._resume(connection):
                self._ready.add(connection)
            else:
                misses += 1

    def resume_crowded(self) -> None:
        """Continue connections that wait for private memory, in order."""
        reader = self.reader
        while reader.space.crowded:
            connection = next(iter(reader.space.crowded))
            try:
                if not (self._resume(connection) if connection.filling is None else reader.grow(connection)):
                    return
            except Unacceptable as problem:
                self.reject(connection, str(problem))
            self._ready.add(connection)

    def unmute(self) -> None:
        """Continue throttled connections after their pause."""
        while self._muted and self._muted[0][0] <= self.now_ms:
            connection = heapq.heappop(self._muted)[2]
            if not connection.closed and connection.is_muted and connection.muted_until_ms <= self.now_ms:
                connection.is_muted = False
                self._ready.add(connection)

    @property
    def next_unmute_ms(self) -> int | None:
        return self._muted[0][0] if self._muted else None

    def stop_reading(self) -> None:
        """Accept no further requests. A connection without pending replies is shut down at once."""
        self.is_closing = True
        for connection in self._by_fd.values():
            self._ready.add(connection)

    def is_quiet(self) -> bool:
        return all(each.is_quiet and not self._accepts_requests(each) for each in self._by_fd.values())

    def _accepts_requests(self, connection: Connection) -> bool:
        """Whether requests are read: at a stop only the first one of a new connection."""
        return not self.is_closing or is_awaited(connection, self.now_ms)

    def close_gracefully(self) -> None:
        """Close all connections after their replies have arrived."""
        close_gracefully([connection.sock for connection in self._by_fd.values()], lambda: monotonic_ns() // 1_000_000)
        self.close_all()

    def close_all(self) -> None:
        for connection in list(self._by_fd.values()):
            self.close(connection, None)

    def close(self, connection: Connection, reason: str | None) -> None:
        """Close a connection; log `reason`, which is None after a normal close by the peer."""
        if connection.closed:
            return
        if reason is not None:
            self._peer_log.closing(connection.host, self.now_ms, connection.peer, reason)
        del self._by_fd[connection.fd]
        self._epoll.unregister(connection.fd)
        if connection.parked is not None:
            self._discard(connection.parked)
            connection.parked = None
        self.reader.forget(connection)
        self.unread.forget(connection)
        connection.drop()
        self._block[CONNECTIONS_CLOSED] += 1
        self._block[CONNECTIONS] = len(self._by_fd)
        self.on_closed(connection)
