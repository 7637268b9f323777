"""From socket to complete requests: the memory of received bytes, and the conditions under which a connection waits.

A Produce is received into the shared arena and stays there until its owner has written it. Small requests share a
window of the arena; a larger one gets its whole space at once, if arena_places.py has free space. All other requests
are read into private memory (request_memory.py). A complete Produce without space in the arena waits in a queue: this
is the back-pressure. Idle connections and requests that may not start yet hold no memory.
"""

from collections.abc import Generator, Iterator

from kafkad.adapters.shared_memory.arena import Arena
from kafkad.processes.network.connections import request_memory
from kafkad.processes.network.connections.arena_places import ArenaPlaces
from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.frames import SMALLEST_FRAME, Filling, Frame, Unacceptable, request_class_of
from kafkad.processes.network.connections.loop_pass import PASS_BYTES, exceeds_pass
from kafkad.processes.network.connections.request_memory import RequestMemory, memory_for, next_step
from kafkad.processes.network.connections.unread_replies import UnreadReplies
from kafkad.wire.api_table import PRODUCE
from kafkad.wire.framing import LENGTH, foreign_protocol, read_header
from kafkad.wire.primitives import I16, MalformedRequest
from kafkad.wire.request_limits import LARGEST_BYTES

WINDOW_BYTES = 256 * 1024
READ_BYTES = 32 * 1024
PEEK_BYTES = 512
"""The first read after a large request: the rest of the next large one is received right into its space."""
LARGE_FRAME_BYTES = READ_BYTES
_ALIGN = 63


class FrameReader:
    """Receives for all connections of a network process."""

    def __init__(self, arena: Arena, space: RequestMemory, max_request_bytes: int, unread: UnreadReplies) -> None:
        self._arena = arena
        self.space = space
        self._view = arena.view
        self._max_request_bytes = max_request_bytes
        self._unread = unread
        self._window: int | None = None
        self._window_used = 0
        self._private = memoryview(b"")
        self.places = ArenaPlaces(arena)
        self.starved = self.places.queue.waiting
        self.next_pass: dict[Connection, None] = {}
        """Connections with more received requests, which continue in the next pass."""
        self.received_bytes = 0
        """Bytes of large requests that were received since the last check."""
        self.unfinished: set[Connection] = set()
        """Connections with an incomplete request; the peer decides how long the rest takes."""

    @property
    def used_bytes(self) -> int:
        """The arena space of requests."""
        spare = WINDOW_BYTES if self._window is not None and self._window_used == 0 else 0
        return self._arena.used_bytes - spare

    def reuse_window(self) -> None:
        """Free the window, as no Produce is in flight."""
        self._window_used = 0

    def receive(self, connection: Connection, now_ms: int) -> Iterator[Frame]:
        """Read available bytes; yields complete requests one by one. Sets `is_finished` if the peer has closed.

        The caller starts or parks each frame before the next one, which may depend on it.
        Raises Unacceptable, OSError.
        """
        budget = PASS_BYTES
        while budget > 0 and not (connection.closed or connection.is_finished):
            filling = connection.filling
            if filling is not None and filling.got < filling.total:
                requested, got = self._receive_rest(connection, filling, now_ms)
                if filling.got == filling.total:
                    yield from self._filled(connection, filling)
            elif filling is not None or connection.is_blocked() or self.is_waiting(connection):
                return
            else:
                requested, got = yield from self._receive_first(connection, now_ms)
            if got == 0:
                connection.is_finished = True
                return
            if got < requested:
                return
            budget -= got
            if filling is not None and connection.filling is None and filling.arena_extent is None:
                # After a large request, usually no Produce, other connections have their turn.
                return

    def is_waiting(self, connection: Connection) -> bool:
        """Whether the connection is queued for space in the arena or in private memory."""
        return connection in self.starved or connection in self.space.crowded

    def resume(self, connection: Connection) -> Iterator[Frame]:
        """Waiting requests, as from `receive`; afterwards the connection may be `is_waiting` again.

        Raises Unacceptable.
        """
        if connection.filling is not None:
            yield from self._filled(connection, connection.filling)
            return
        head = self._take_head(connection)
        connection.has_waiting_requests = False
        if (yield from self._split(connection, memoryview(head), 0, len(head), None)):
            self.places.queue.leave(connection)
            self.space.crowded.pop(connection, None)

    def _keep_head(self, connection: Connection, head: bytes) -> None:
        connection.head = head
        if len(head) > request_memory.COUNTED_HEAD_BYTES:
            self.space.hold(connection, len(head))

    def _keep_waiting(self, connection: Connection, head: bytes) -> None:
        """Keep complete requests that may not start yet."""
        self._keep_head(connection, head)
        connection.has_waiting_requests = True

    def _take_head(self, connection: Connection) -> bytes:
        head, connection.head = connection.head, b""
        if len(head) > request_memory.COUNTED_HEAD_BYTES:
            self.space.drop(connection)
        return head

    def _receive_first(self, connection: Connection, now_ms: int) -> Generator[Frame, None, tuple[int, int]]:
        """The requested and the received size; received is -1 when the socket is empty, 0 at its end."""
        head = connection.head
        window = self._window if self._has_window(len(head) + READ_BYTES) else None
        if window is not None:
            view, start = self._view, window + self._window_used
        else:
            view, start = self._private_space(len(head) + READ_BYTES), 0
        at = start + len(head)
        requested = PEEK_BYTES if connection.large_frames else READ_BYTES
        try:
            got = connection.sock.recv_into(view[at : at + requested])
        except BlockingIOError:
            return requested, -1
        if got == 0:
            return requested, 0
        if head:
            view[start:at] = self._take_head(connection)
            self.unfinished.discard(connection)
        connection.last_active_ms = now_ms
        yield from self._split(connection, view, start, at + got, window)
        return requested, got

    def _has_window(self, size: int) -> bool:
        if self._window is not None:
            if WINDOW_BYTES - self._window_used >= size:
                return True
            self._drop_window()
        if self.starved:
            return False
        self._window = self._arena.reserve(WINDOW_BYTES)
        return self._window is not None

    def _drop_window(self) -> None:
        if self._window is not None:
            self._arena.release(self._window)
        self._window, self._window_used = None, 0

    def _private_space(self, size: int) -> memoryview:
        if len(self._private) < size:
            self._private = memoryview(bytearray(size))
        return self._private

    def _split(
        self, connection: Connection, view: memoryview, start: int, end: int, window: int | None
    ) -> Generator[Frame, None, bool]:
        """Yield each complete request between `start` and `end` that may start; the rest is kept.

        `window` is None when `view` is not the arena. Returns False if the connection has to wait for space.
        """
        at, started, unread = start, 0, self._unread
        while end - at >= 4:
            (length,) = LENGTH.unpack_from(view, at)
            if not SMALLEST_FRAME <= length <= self._max_request_bytes:
                raise Unacceptable.length(length, self._max_request_bytes, bytes(view[at : min(at + 16, end)]))
            if end - at - 4 < length:
                break
            (api_key,) = I16.unpack_from(view, at + 4)
            # A parked request stays before all later requests.
            is_waiting = connection.parked is not None or not connection.may_start(request_class_of(api_key, length))
            if is_waiting or (unread.is_exceeded and unread.must_wait(connection, api_key)):
                self._keep_waiting(connection, bytes(view[at:end]))
                return True
            started += 1
            if exceeds_pass(started, at - start + connection.out_bytes, is_produce=api_key == PRODUCE):
                self.next_pass[connection] = None
                self._keep_waiting(connection, bytes(view[at:end]))
                return True
            connection.large_frames = length > LARGE_FRAME_BYTES
            frame_at, behind = at + 4, at + 4 + length
            if api_key != PRODUCE:
                yield self._frame(connection, memoryview(bytes(view[frame_at:behind])), None, 0)
            elif window is not None:
                self._arena.retain(window)
                self._window_used = (behind - window + _ALIGN) & ~_ALIGN
                yield self._frame(connection, view[frame_at:behind], window, frame_at)
            else:
                copied = self._copied(connection, view[frame_at:behind])
                if copied is None:
                    self._keep_head(connection, bytes(view[at:end]))
                    return False
                yield copied
            if connection.closed or connection.is_finished:
                return True
            at = behind
        return self._keep_rest(connection, view[at:end]) if at < end else True

    def _copied(self, connection: Connection, frame: memoryview) -> Frame | None:
        """Copy a complete Produce into the arena. None when it has to wait for space."""
        size = len(frame)
        extent = self.places.take(connection, size)
        if extent is None and self._window is not None:
            self._drop_window()
            extent = self.places.take(connection, size)
        if extent is None:
            self.places.wait(connection, size)
            return None
        target = self._view[extent : extent + size]
        target[:] = frame
        return self._frame(connection, target, extent, extent)

    def _frame(self, connection: Connection, view: memoryview, extent: int | None, offset: int) -> Frame:
        connection.frames_read += 1
        try:
            header = read_header(view)
        except MalformedRequest as error:
            if extent is not None:
                self._arena.release(extent)
            raise Unacceptable(f"a request header can't be read: {error}") from error
        return Frame(header, view, extent, offset)

    def _keep_rest(self, connection: Connection, rest: memoryview) -> bool:
        """Keep a part of a request, or allocate the space of a large one."""
        if len(rest) >= 6:
            total = LENGTH.unpack_from(rest)[0] + 4
            if connection.frames_read == 0 and (protocol := foreign_protocol(bytes(rest[:16]))):
                raise Unacceptable(f"this looks like {protocol}")
            # No space is reserved for a request that may not start: an earlier long poll can take any time.
            if total > LARGE_FRAME_BYTES // 2 and not connection.is_blocked():
                return self._start_filling(connection, rest, total)
        self._keep_head(connection, bytes(rest))
        self.unfinished.add(connection)
        return True

    def _start_filling(self, connection: Connection, rest: memoryview, total: int) -> bool:
        connection.large_frames = total > LARGE_FRAME_BYTES
        got = len(rest)
        extent = None
        is_produce = I16.unpack_from(rest, 4)[0] == PRODUCE
        if is_produce and self.places.may_begin(total):
            extent = self.places.begin(total)
            if extent is None and self._window is not None:
                # The largest request has to fit when all others have completed: release the window first.
                rest = memoryview(bytes(rest))
                self._drop_window()
                extent = self.places.begin(total)
        if extent is not None:
            target = self._view[extent : extent + total]
        else:
            if total - LENGTH.size > LARGEST_BYTES and not is_produce:
                raise Unacceptable.size(total - LENGTH.size, rest)
            size = next_step(got, total)
            if not self.space.grow(connection, size):
                self._keep_head(connection, bytes(rest))
                return False
            target = memoryview(memory_for(size))
        target[:got] = rest
        connection.filling = Filling(target, extent, got, total)
        self.unfinished.add(connection)
        return True

    def _receive_rest(self, connection: Connection, filling: Filling, now_ms: int) -> tuple[int, int]:
        if filling.got == len(filling.view) and not self.grow(connection):
            return 1, -1
        requested = len(filling.view) - filling.got
        try:
            got = connection.sock.recv_into(filling.view[filling.got :])
        except BlockingIOError:
            return requested, -1
        if got:
            filling.got += got
            self.received_bytes += got
            connection.last_active_ms = now_ms
        if filling.got == filling.total:
            self.unfinished.discard(connection)
        return requested, got

    def _filled(self, connection: Connection, filling: Filling) -> Iterator[Frame]:
        """Yield a large request that is now complete, unless it has to wait for space."""
        extent, frame = filling.arena_extent, filling.view[4:]
        if extent is not None:
            self.places.completed(filling.total)
            connection.filling = None
            yield self._frame(connection, frame, extent, extent + 4)
            return
        if I16.unpack_from(frame)[0] == PRODUCE:
            whole = self._copied(connection, frame)
            if whole is None:
                return
        else:
            whole = self._frame(connection, frame, None, 0)
        connection.filling = None
        yield whole
        self.space.release(connection)

    def move_out(self, connection: Connection) -> bool:
        """Move an incomplete request out of the arena; False when private memory has no space."""
        filling = connection.filling
        assert filling is not None and filling.arena_extent is not None, "only a request in the arena is moved"
        size = next_step(filling.got, filling.total)
        if not self.space.take(connection, size):
            return False
        try:
            moved = memoryview(bytearray(size))
        except MemoryError:
            self.space.drop(connection)
            return False
        moved[: filling.got] = filling.view[: filling.got]
        self.places.abandon(filling.arena_extent, filling.total)
        filling.view, filling.arena_extent = moved, None
        return True

    def grow(self, connection: Connection) -> bool:
        """Grow the private memory of a request; False when its connection has to wait for memory."""
        filling = connection.filling
        assert filling is not None, "only an incomplete request grows"
        size = next_step(filling.got, filling.total)
        if not self.space.grow(connection, size):
            return False
        # Into a view: assigning to a slice of a bytearray makes another copy.
        grown = memoryview(memory_for(size))
        grown[: filling.got] = filling.view
        filling.view = grown
        return True

    def forget(self, connection: Connection) -> None:
        """The connection closes: release its arena space."""
        self.unfinished.discard(connection)
        self.places.queue.leave(connection)
        self.space.release(connection)
        self.next_pass.pop(connection, None)
        filling, connection.filling = connection.filling, None
        if filling is not None and filling.arena_extent is not None:
            self.places.abandon(filling.arena_extent, filling.total)
        connection.head, connection.has_waiting_requests = b"", False
