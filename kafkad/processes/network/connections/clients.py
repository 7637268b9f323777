"""All connections of a network process: requests go in order to their handlers, replies in order to the socket.

A faulty connection is closed here, with one log line that names the peer and the cause, once a minute for each address.
Other connections are not affected.
"""

import heapq
import select
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic_ns

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.metrics.catalogue import CONNECTIONS, CONNECTIONS_CLOSED, CONNECTIONS_CREATED, request_index
from kafkad.core.request_context import ANONYMOUS, ClientIdentity, RequestContext
from kafkad.handlers.requests.failures import reason_to_close
from kafkad.processes.network.connections.acceptor import Accepted
from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.frame_reader import FrameReader
from kafkad.processes.network.connections.frames import Frame, Unacceptable
from kafkad.processes.network.connections.graceful_close import is_awaited, mark_end, part
from kafkad.processes.network.connections.loop_pass import TURNS_OF_A_PASS, ReadyConnections
from kafkad.processes.network.connections.unread_replies import UnreadReplies
from kafkad.processes.network.logs.page_cache_prefetch import PageCachePrefetch
from kafkad.processes.runtime.peer_log import PeerLog, reason_of
from kafkad.processes.runtime.turns import COSTLY_BYTES, Turns
from kafkad.wire.api_table import API_VERSIONS, APIS, PRODUCE
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage

_READ, _WRITE = select.EPOLLIN, select.EPOLLOUT
STARVED_MISSES = 16
"""Failed attempts in one pass for connections that wait for the arena. Room too small for one may do for another."""
_HANG_UP = select.EPOLLHUP | select.EPOLLERR

Start = Callable[[Connection, Frame, RequestContext], None]
"""Begins to answer a request. Sets `exclusive_in_flight` when the answer comes later. Raises MalformedRequest."""


class Clients:
    """The connections and their epoll registrations."""

    _start: Start

    def __init__(
        self,
        epoll: select.epoll,
        block: CounterBlock,
        *,
        reader: FrameReader,
        ready: ReadyConnections,
        lost: Callable[[Connection], None],
        release: Callable[[int], object],
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
        self._lost = lost
        self._release = release
        self.prefetch = prefetch
        self._turns = turns
        self._in_line: set[Connection] = set()
        """Connections whose parked request starts in its turn."""
        self.queued_bytes = 0
        """The total size of those requests."""
        self._peer_log = peer_log
        self._numbers = 0
        self._muted: list[tuple[int, int, Connection]] = []
        self.now_ms = 0
        self.is_closing = False

    def __len__(self) -> int:
        return len(self._by_fd)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._by_fd.values())

    def serve(self, start: Start) -> None:
        """Set `start`, which begins requests. It is made last, as it needs the connections that it may close."""
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
                    self._finished(connection)
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
            self._refuse(connection, str(problem))
        except OSError as error:
            self.close(connection, reason_of(error))

    def _finished(self, connection: Connection) -> None:
        """The peer sends no more. Its earlier requests are still answered, as it may have closed one direction only."""
        self.reader.forget(connection)
        if connection.replies or connection.out:
            connection.is_finished = True
            self._ready.add(connection)
        else:
            self.close(connection, None)

    def _refuse(self, connection: Connection, reason: str) -> None:
        """Its last bytes are no valid request, and nothing more is read. Its earlier requests are still answered."""
        self._peer_log.closing(connection.host, self.now_ms, connection.peer, reason)
        self._finished(connection)

    def _arrived(self, connection: Connection, frame: Frame) -> None:
        """A complete request: start it, or keep it until those before it are answered."""
        connection.received_ns = monotonic_ns()
        if not connection.may_start(frame.request_class) or self.unread.must_wait(connection, frame.header.api_key):
            connection.parked = frame
        elif len(frame.view) > COSTLY_BYTES and frame.header.api_key != PRODUCE:
            connection.parked = frame
            self._queue(connection, len(frame.view))
        else:
            self._begin(connection, frame)

    def _queue(self, connection: Connection, size: int) -> None:
        if connection not in self._in_line:
            self._in_line.add(connection)
            self.queued_bytes += size
            self._turns.add(size, self._in_turn(connection, size))

    def _in_turn(self, connection: Connection, size: int) -> Iterator[None]:
        """Start its parked request in its turn, unless that has to wait for something else again."""
        self._in_line.discard(connection)
        self.queued_bytes -= size
        frame = connection.parked
        if frame is None or not self._takes_more(connection) or not connection.may_start(frame.request_class):
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
            self._refuse(connection, f"unknown API key {header.api_key} (version {header.version})")
        elif not api.min_version <= header.version <= api.max_version and header.api_key != API_VERSIONS:
            self._discard(frame)
            self._refuse(connection, f"{api.name} version {header.version} is not supported")
        else:
            self._block[request_index(header.api_key, header.version)] += 1
            self._start_request(connection, frame)

    def _start_request(self, connection: Connection, frame: Frame) -> None:
        before = len(connection.replies)
        try:
            self._start(connection, frame, connection.context_of(frame.header, self.now_ms))
        except (MalformedRequest, UnencodableMessage) as error:
            connection.keep_replies(before)
            self._refuse(connection, reason_to_close(frame.header, error))
        except Exception as bug:  # noqa: BLE001  this process only reads what others share
            self.close(connection, reason_to_close(frame.header, bug))

    def _discard(self, frame: Frame) -> None:
        if frame.arena_extent is not None:
            self._release(frame.arena_extent)

    def flush(self) -> None:
        """End of a loop pass: send the replies that are ready, continue requests that waited for them."""
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
        if connection.is_quiet and not self._takes_more(connection):
            mark_end(connection.sock)
        self._set_interest(connection)

    def _start_next(self, connection: Connection) -> None:
        """Start requests that waited for earlier ones, if they may start now."""
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
        """Take the requests that had to wait; False if they have to wait for space again."""
        try:
            for frame in self.reader.resume(connection):
                self._arrived(connection, frame)
        except Unacceptable as problem:
            self._refuse(connection, str(problem))
        return not self.reader.waits(connection)

    def _set_interest(self, connection: Connection) -> None:
        interest = _WRITE if connection.out and not connection.is_prefetching else 0
        if connection.is_muted:
            heapq.heappush(self._muted, (connection.muted_until_ms, connection.number, connection))
        elif self._is_read(connection):
            interest |= _READ
        if interest != connection.interest:
            if interest & _READ and not connection.interest & _READ:
                # Until now the broker did not read from it, so its silence does not count.
                connection.last_active_ms = self.now_ms
            connection.interest = interest
            self._epoll.modify(connection.fd, interest)

    def _is_read(self, connection: Connection) -> bool:
        reader = self.reader
        waits_for_memory = connection in reader.starved or connection in reader.space.crowded
        if not self._takes_more(connection) or connection.is_finished or waits_for_memory:
            return False
        return connection.filling is not None or not connection.is_blocked()

    def take_turns(self, waiting: dict[Connection, None]) -> None:
        """When the pass ends, continue some of the connections that gave way to others."""
        for connection in list(islice(waiting, TURNS_OF_A_PASS)):
            del waiting[connection]
            self._ready.add(connection)

    def feed_starved(self) -> None:
        """There may be space in the arena again: waiting connections go on, in the order in which they came."""
        queue, misses = self.reader.places.queue, 0
        for connection, size in list(queue.waiting.items()):
            if misses == STARVED_MISSES or not queue.may_take(connection, size):
                return
            if self._resume(connection):
                self._ready.add(connection)
            else:
                misses += 1

    def feed_crowded(self) -> None:
        """The same for private memory."""
        reader = self.reader
        while reader.space.crowded:
            connection = next(iter(reader.space.crowded))
            try:
                if not (self._resume(connection) if connection.filling is None else reader.grow(connection)):
                    return
            except Unacceptable as problem:
                self._refuse(connection, str(problem))
            self._ready.add(connection)

    def unmute(self) -> None:
        """Go on with clients whose pause is over, when the pass ends."""
        while self._muted and self._muted[0][0] <= self.now_ms:
            connection = heapq.heappop(self._muted)[2]
            if not connection.closed and connection.is_muted and connection.muted_until_ms <= self.now_ms:
                connection.is_muted = False
                self._ready.add(connection)

    @property
    def next_unmute_ms(self) -> int | None:
        return self._muted[0][0] if self._muted else None

    def stop_reading(self) -> None:
        """Take no further requests: a client that has all its replies sees the end at once, whatever others do."""
        self.is_closing = True
        for connection in self._by_fd.values():
            self._ready.add(connection)

    def is_quiet(self) -> bool:
        return all(each.is_quiet and not self._takes_more(each) for each in self._by_fd.values())

    def _takes_more(self, connection: Connection) -> bool:
        """Whether requests of it are read: at a stop the first one only, so that a restart refuses nobody."""
        return not self.is_closing or is_awaited(connection, self.now_ms)

    def part(self) -> None:
        """Close all connections when their replies have arrived."""
        part([connection.sock for connection in self._by_fd.values()], lambda: monotonic_ns() // 1_000_000)
        self.close_all()

    def close_all(self) -> None:
        for connection in list(self._by_fd.values()):
            self.close(connection, None)

    def close(self, connection: Connection, reason: str | None) -> None:
        """Drop a connection; log `reason` unless the peer has closed it normally."""
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
        self._lost(connection)
