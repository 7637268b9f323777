"""One client's connection: its requests that are not answered yet, and its replies that are not sent yet.

Invariant: replies leave in the order of their requests, even if they get ready in another order. Requests of one class
may be under way together (`request_class_of`); any other request waits until it is alone.
"""

import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from struct import Struct

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.metrics.histograms import observe_total_time
from kafkad.core.request_context import ClientIdentity, ConnectionContext, RequestContext
from kafkad.processes.network.connections.frames import ALONE, Filling, Frame, request_class_of
from kafkad.processes.network.logs.cached_reads import read_cached
from kafkad.wire.framing import RequestHeader
from kafkad.wire.messages.fetch import FileSlice, Piece

OUT_LIMIT_BYTES = 1 << 20
"""Unsent bytes beyond which no further request is read from the connection."""
JOINED_BYTES = 16 * 1024
"""Larger pieces are sent without joining: copying them costs more than another system call."""
CLASS_LIMIT = 64
"""Requests of one connection that may be under way at once."""
KEPT_CLIENT_ID = 256
"""A connection caches its last client id, unless it is longer than this."""
_LENGTH_AND_KEY = Struct(">ih")
_SEND_MORE = socket.MSG_MORE | socket.MSG_NOSIGNAL


class Reply:
    """The place of one request in the order of replies; `pieces` is None until it is ready."""

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
        """Throttled: no request is read before `muted_until_ms`, as its client is over its quota."""
        self.is_prefetching = False
        """A thread reads the next file slice into the page cache; meanwhile nothing is sent."""
        self.muted_until_ms = 0
        self.interest = 0
        self.head = b""
        """Bytes that are not handed on yet: a part of a request, or requests that wait."""
        self.has_waiting_requests = False
        self.parked: Frame | None = None
        """A large request that is complete but may not start yet; meanwhile the connection is not read."""
        self.filling: Filling | None = None
        self.large_frames = False
        self.frames_read = 0
        self.received_ns = 0
        """The time at which the last request was complete."""
        self.replies: deque[Reply] = deque()
        self.out: deque[Piece | memoryview] = deque()
        self.out_bytes = 0
        """Bytes of replies that are ready and not sent, including those behind replies that are not ready."""
        self.request_class = ALONE
        self.class_in_flight = 0
        """How many requests of `request_class` are under way."""
        self.exclusive_in_flight = False
        self.is_finished = False
        """The peer sends nothing more, or is not read any more; it may still wait for replies."""
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
        """No request is under way and no reply is unsent.

        A Produce with acks=0 has no reply, but may not be written yet.
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
        """The barrier rule: beside requests of its own class, or alone. A request starts when all of these agree:

        - this rule, asked when a request is complete (`FrameReader._split`, `Clients._arrived`) and when one ended;
        - `UnreadReplies.must_wait`: replies that nobody reads fill the memory, and this one may be large, too;
        - its turn (`Clients._queue`), if it is large and no Produce.
        `is_blocked` says, before the request is known, that reading more of the connection would start nothing.
        """
        if self.exclusive_in_flight or self.is_muted or self.out_bytes > OUT_LIMIT_BYTES:
            return False
        in_flight = self.class_in_flight
        return in_flight == 0 or (in_flight < CLASS_LIMIT and request_class == self.request_class != ALONE)

    def waiting_class(self) -> int:
        """The class of the next waiting request: the parked one, or the first of those that are held."""
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
        """A request starts; it is under way until `ended`."""
        if request_class == ALONE:
            self.exclusive_in_flight = True
        else:
            self.request_class = request_class
            self.class_in_flight += 1

    def ended(self) -> None:
        """A request that was under way is answered."""
        if self.exclusive_in_flight:
            self.exclusive_in_flight = False
        else:
            self.class_in_flight -= 1

    def answer(self, reply: Reply, pieces: Sequence[Piece], size: int) -> None:
        """Fill in `reply` with `size` bytes. They count as unsent from now on, and too many delay further requests."""
        reply.pieces = pieces
        self.out_bytes += size

    def keep_replies(self, count: int) -> None:
        """Keep only the first `count` replies: the request after them turned out to be malformed."""
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
        """Send as much as the socket takes; True when nothing is left. Raises OSError when the peer is gone.

        A file slice waits until `is_cached` has it in memory. If `check` says that its bytes are gone, or the file is
        shorter than when the reply was made, the connection ends (`ConnectionAbortedError`).
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
            # Not a copy: a large body may be the reply to many clients.
            out[0] = memoryview(piece)[sent:]
        return sent

    def _send_records(self, head: bytes | memoryview, records: FileSlice, check: Callable[[FileSlice], None]) -> int:
        """Few records, with what stands before and behind them: two system calls instead of five, and nothing is kept;
        0 when they have to be read from the disk.
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
        """So many bytes of the first pieces have left."""
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
        """Make one piece of the leading byte pieces: one system call for many small replies."""
        out = self.out
        parts: list[bytes | memoryview] = []
        room = JOINED_BYTES
        while out and not isinstance(piece := out[0], FileSlice) and (room >= len(piece) or not parts):
            parts.append(piece)
            room -= len(piece)
            out.popleft()
        joined = b"".join(parts) if len(parts) > 1 else parts[0]
        out.appendleft(joined)
        return joined

    def unsent_pieces(self) -> Iterator[object]:
        """The unsent bytes that it holds in memory, each as its object."""
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
