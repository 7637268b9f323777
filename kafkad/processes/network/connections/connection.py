"""One client's connection: its pending requests and unsent replies.

Invariant: replies are sent in the order of their requests, even if they are ready in another order. Requests of one
class may be in flight together (`request_class_of`); any other request waits until it is exclusive.
"""

import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from struct import Struct

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.metrics.counting import observe_total_time
from kafkad.core.request_context import ClientIdentity, ConnectionContext, RequestContext
from kafkad.processes.network.connections.frames import ALONE, Filling, Frame, request_class_of
from kafkad.processes.network.logs.cached_reads import read_cached
from kafkad.wire.framing import RequestHeader
from kafkad.wire.messages.fetch import FileSlice, Piece

OUT_LIMIT_BYTES = 1 << 20
"""Unsent bytes beyond which no further request is read from the connection."""
JOINED_BYTES = 16 * 1024
"""Larger pieces are not joined: a copy costs more than another system call."""
CLASS_LIMIT = 64
"""The limit of requests in flight on one connection."""
KEPT_CLIENT_ID = 256
"""A connection caches its last client id, unless it is longer than this."""
_LENGTH_AND_KEY = Struct(">ih")
_SEND_MORE = socket.MSG_MORE | socket.MSG_NOSIGNAL


class Reply:
    """The reply of one request, in the order of replies; `pieces` is None until it is ready."""

    __slots__ = ("connection", "context", "pieces", "received_ns")

    def __init__(self, connection: "Connection", context: RequestContext) -> None:
        self.connection = connection
        self.context = context
        self.received_ns = connection.received_ns
        self.pieces: Sequence[Piece] | None = None


class Connection:
    """The state of one socket. Slotted, as there may be ten thousand idle ones."""

    __slots__ = (
        "class_in_flight",
        "client",
        "closed",
        "context",
        "exclusive_in_flight",
        "fd",
        "filling",
        "frames_read",
        "has_waiting_requests",
        "head",
        "interest",
        "is_finished",
        "is_muted",
        "is_new",
        "is_prefetching",
        "large_frames",
        "last_active_ms",
        "muted_until_ms",
        "number",
        "out",
        "out_bytes",
        "parked",
        "peer",
        "received_ns",
        "replies",
        "request_class",
        "sock",
    )

    def __init__(
        self,
        sock: socket.socket,
        number: int,
        peer: str,
        client: ClientIdentity,
        context: ConnectionContext,
        now_ms: int,
    ) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.number = number
        self.peer = peer
        self.client = client
        """The context of the last request."""
        self.context = context
        self.last_active_ms = now_ms
        self.is_new = True  # No request of it has begun.
        self.is_muted = False
        """Throttled: no request is read before `muted_until_ms`, as the client exceeds its quota."""
        self.is_prefetching = False
        """A thread reads the next file slice into the page cache; meanwhile nothing is sent."""
        self.muted_until_ms = 0
        self.interest = 0
        self.head = b""
        """Received bytes: an incomplete request, or waiting requests."""
        self.has_waiting_requests = False
        self.parked: Frame | None = None
        """A complete request that may not start yet; meanwhile the connection is not read."""
        self.filling: Filling | None = None
        self.large_frames = False
        self.frames_read = 0
        self.received_ns = 0
        """When the last request was complete."""
        self.replies: deque[Reply] = deque()
        self.out: deque[Piece | memoryview] = deque()
        self.out_bytes = 0
        """Unsent bytes of ready replies, including replies behind pending ones."""
        self.request_class = ALONE
        self.class_in_flight = 0
        """The number of requests of `request_class` in flight."""
        self.exclusive_in_flight = False
        self.is_finished = False
        """The peer sends no more requests, or is no longer read; it may still wait for replies."""
        self.closed = False

    @property
    def is_read(self) -> bool:
        """Whether epoll watches for input from its client."""
        return bool(self.interest & select.EPOLLIN)

    @property
    def host(self) -> str:
        """The peer's address without its port."""
        return self.client.address

    def context_of(self, header: RequestHeader, now_ms: int) -> RequestContext:
        """The context of a request that begins at `now_ms`."""
        client, client_id = self.client, header.client_id or ""
        if client.client_id != client_id:
            client = ClientIdentity(client.principal, client_id, client.address)
            if len(client_id) <= KEPT_CLIENT_ID:
                self.client = client
        return RequestContext(client, self.context, header.api_key, header.version, header.correlation_id, now_ms)

    @property
    def is_quiet(self) -> bool:
        """Whether no request is in flight and no reply is unsent.

        A Produce with acks=0 has no reply, but is in flight until it is written.
        """
        return not (self.replies or self.out or self.class_in_flight)

    def is_blocked(self) -> bool:
        """Whether the next request has to wait for earlier ones, or for the client to read its replies."""
        return (
            self.exclusive_in_flight
            or self.has_waiting_requests
            or self.is_muted
            or self.parked is not None
            or self.class_in_flight >= CLASS_LIMIT
            or self.out_bytes > OUT_LIMIT_BYTES
        )

    def may_start(self, request_class: int) -> bool:
        """The barrier rule: a request starts beside requests of its class, or alone. All conditions of a start:

        - this rule, checked when a request is complete (`FrameReader._split`, `Clients._arrived`) and after another;
        - `UnreadReplies.must_wait`: unread replies fill the memory, and the reply of this request may be large;
        - its turn (`Clients._queue`), if it is large and no Produce.
        `is_blocked` is the check before the request is read: no request could start now.
        """
        if self.exclusive_in_flight or self.is_muted or self.out_bytes > OUT_LIMIT_BYTES:
            return False
        in_flight = self.class_in_flight
        return in_flight == 0 or (in_flight < CLASS_LIMIT and request_class == self.request_class != ALONE)

    def waiting_class(self) -> int:
        """The class of the next waiting request: the parked one, or the first in `head`."""
        if self.parked is not None:
            return self.parked.request_class
        length, api_key = _LENGTH_AND_KEY.unpack_from(self.head)
        return request_class_of(api_key, length)

    def waiting_key(self) -> int:
        """The API key of the next waiting request."""
        if self.parked is not None:
            return self.parked.header.api_key
        api_key: int = _LENGTH_AND_KEY.unpack_from(self.head)[1]
        return api_key

    def begin(self, request_class: int) -> None:
        """A request starts; it is in flight until `request_completed`."""
        if request_class == ALONE:
            self.exclusive_in_flight = True
        else:
            self.request_class = request_class
            self.class_in_flight += 1

    def request_completed(self) -> None:
        """A request in flight has completed."""
        if self.exclusive_in_flight:
            self.exclusive_in_flight = False
        else:
            self.class_in_flight -= 1

    def complete_reply(self, reply: Reply, pieces: Sequence[Piece], size: int) -> None:
        """Fill in `reply` with `size` bytes. They count as unsent; too many unsent bytes delay further requests."""
        reply.pieces = pieces
        self.out_bytes += size

    def keep_replies(self, count: int) -> None:
        """Keep only the first `count` replies: the next request was malformed."""
        while len(self.replies) > count:
            self.replies.pop()

    def mute(self, until_ms: int) -> None:
        self.is_muted = True
        self.muted_until_ms = max(self.muted_until_ms, until_ms)

    def queue_ready_replies(self, block: CounterBlock, now_ns: int) -> None:
        """Move replies that are ready, in order, to the outgoing pieces, and count in `block` how long each took."""
        replies, out = self.replies, self.out
        while replies and (pieces := replies[0].pieces) is not None:
            reply = replies.popleft()
            observe_total_time(block, reply.context.api_key, (now_ns - reply.received_ns) // 1000)
            out.extend(pieces)

    def send(self, is_cached: Callable[["Connection", FileSlice], bool], check: Callable[[FileSlice], None]) -> bool:
        """Send until the socket blocks; True when all is sent. Raises OSError when the peer has disconnected.

        A file slice waits until it `is_cached`. Raises ConnectionAbortedError if `check` finds that the log was
        truncated, or the file is shorter than when the reply was built.
        """
        out = self.out
        while out and not self.is_prefetching:
            piece = out[0]
            if isinstance(piece, FileSlice):
                check(piece)
                if not piece.is_cached and not is_cached(self, piece):
                    return False
            sent = self._send_file(piece) if isinstance(piece, FileSlice) else self._send_bytes(piece, check)
            if sent < 0:
                return False
        return not out

    def _send_bytes(self, piece: bytes | memoryview, check: Callable[[FileSlice], None]) -> int:
        out = self.out
        if len(out) > 1:
            following = out[1]
            if not isinstance(following, FileSlice):
                piece = self._join_bytes()
            elif following.length <= JOINED_BYTES and (sent := self._send_records(piece, following, check)):
                return sent
        more = _SEND_MORE if len(out) > 1 else socket.MSG_NOSIGNAL
        try:
            sent = self.sock.send(piece, more)
        except BlockingIOError:
            return -1
        self.out_bytes -= sent
        if sent == len(piece):
            out.popleft()
        else:
            # Not a copy: many replies may share a large body.
            out[0] = memoryview(piece)[sent:]
        return sent

    def _send_records(self, head: bytes | memoryview, records: FileSlice, check: Callable[[FileSlice], None]) -> int:
        """Send few records with the pieces around them: two system calls instead of five. Returns 0 when the records
        are not cached.
        """
        check(records)
        out = self.out
        content = read_cached(records.fd, records.position, records.length)
        if content is None:
            return 0
        pieces = [head, content]
        if len(out) > 2 and not isinstance(tail := out[2], FileSlice):
            pieces.append(tail)
        more = _SEND_MORE if len(out) > len(pieces) else socket.MSG_NOSIGNAL
        try:
            sent = self.sock.send(b"".join(pieces), more)
        except BlockingIOError:
            return -1
        self._drop_sent(sent)
        return sent

    def _drop_sent(self, sent: int) -> None:
        """Remove `sent` bytes from the first pieces."""
        out = self.out
        self.out_bytes -= sent
        while sent:
            piece = out[0]
            size = piece.length if isinstance(piece, FileSlice) else len(piece)
            left = min(sent, size)
            if isinstance(piece, FileSlice):
                piece.position += left
                piece.length -= left
                if left == size:
                    piece.release()
            elif left < size:
                out[0] = memoryview(piece)[left:]
            if left == size:
                out.popleft()
            sent -= left

    def _join_bytes(self) -> bytes | memoryview:
        """Join the leading byte pieces: one system call for many small replies."""
        out = self.out
        joined_pieces: list[bytes | memoryview] = []
        space_left = JOINED_BYTES
        while out and not isinstance(piece := out[0], FileSlice) and (space_left >= len(piece) or not joined_pieces):
            joined_pieces.append(piece)
            space_left -= len(piece)
            out.popleft()
        joined = b"".join(joined_pieces) if len(joined_pieces) > 1 else joined_pieces[0]
        out.appendleft(joined)
        return joined

    def unsent_pieces(self) -> Iterator[object]:
        """The objects of the unsent bytes in memory."""
        for reply in self.replies:
            yield from reply.pieces or ()
        for piece in self.out:
            yield piece.obj if isinstance(piece, memoryview) else piece

    def _send_file(self, piece: FileSlice) -> int:
        try:
            sent = os.sendfile(self.fd, piece.fd, piece.position, piece.length)
        except BlockingIOError:
            return -1
        if sent == 0 and piece.length:
            raise ConnectionAbortedError("a segment file is shorter than it was published")
        self.out_bytes -= sent
        piece.position += sent
        piece.length -= sent
        if piece.length == 0:
            piece.release()
            self.out.popleft()
        return sent

    def drop(self) -> list[Reply]:
        """Close the socket and release the outgoing pieces and all replies."""
        self.closed = True
        for piece in self.out:
            if isinstance(piece, FileSlice):
                piece.release()
        self.out.clear()
        abandoned = list(self.replies)
        self.replies.clear()
        self.sock.close()
        return abandoned
