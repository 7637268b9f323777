"""From socket to whole requests: where received bytes are put, and when a connection has to wait.

A Produce is received into the shared arena and stays there until its owner has written it. Small requests share a
window of the arena; a larger one gets its whole space at once, if arena_places.py has some for it. Everything else is
read into private memory (request_memory.py). A whole Produce for which the arena has no space waits in a queue: that is
the back-pressure. Idle connections hold nothing, and neither does a request that may not start yet.
"""

from collections.abc import Generator, Iterator

from kafkad.adapters.shared_memory.arena import Arena
from kafkad.processes.network.connections import request_memory
from kafkad.processes.network.connections.arena_places import ArenaPlaces
from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.frames import SMALLEST_FRAME, Filling, Frame, Unacceptable, request_class_of
from kafkad.processes.network.connections.loop_pass import PASS_BYTES, has_had_its_turn
from kafkad.processes.network.connections.request_memory import RequestMemory, memory_for, next_step
from kafkad.processes.network.connections.unread_replies import UnreadReplies
from kafkad.wire.api_table import PRODUCE
from kafkad.wire.framing import LENGTH, foreign_protocol, read_header
from kafkad.wire.primitives import I16, MalformedRequest
from kafkad.wire.request_limits import LARGEST_BYTES

WINDOW_BYTES = 256 * 1024
READ_BYTES = 32 * 1024
PEEK_BYTES = 512
"""How much is read first where the last request was large: what follows goes straight to its place."""
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
        """Connections that have more requests here, but give way to others first."""
        self.came = 0
        """Bytes of large requests that were received since the last look."""
        self.unfinished: set[Connection] = set()
        """Connections with an incomplete request: the peer decides how long the rest takes."""

    @property
    def lent_bytes(self) -> int:
        """The places of requests in the arena."""
        spare = WINDOW_BYTES if self._window is not None and self._window_used == 0 else 0
        return self._arena.used_bytes - spare

    def reuse_window(self) -> None:
        """No Produce is under way: the window is free."""
        self._window_used = 0

    def receive(self, connection: Connection, now_ms: int) -> Iterator[Frame]:
        """Read what is there: whole requests, one by one. A peer that has closed leaves the connection `is_finished`.

        Who takes a frame begins it, or parks it, before the next: what may follow depends on that.
        Raises Unacceptable, OSError.
        """
        budget = PASS_BYTES
        while budget > 0 and not (connection.closed or connection.is_finished):
            filling = connection.filling
            if filling is not None and filling.got < filling.total:
                wanted, got = self._receive_rest(connection, filling, now_ms)
                if filling.got == filling.total:
                    yield from self._filled(connection, filling)
            elif filling is not None or connection.is_blocked() or self.waits(connection):
                return
            else:
                wanted, got = yield from self._receive_first(connection, now_ms)
            if got == 0:
                connection.is_finished = True
                return
            if got < wanted:
                return
            budget -= got
            if filling is not None and connection.filling is None and filling.arena_extent is None:
                # It was a large request, mostly no Produce: other connections have their turn.
                return

    def waits(self, connection: Connection) -> bool:
        """Whether it is in a queue for space, in the arena or in private memory."""
        return connection in self.starved or connection in self.space.crowded

    def resume(self, connection: Connection) -> Iterator[Frame]:
        """Requests that had to wait, as from `receive`; the connection `waits` if it has to again.

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
        """Keep complete requests that have to wait."""
        self._keep_head(connection, head)
        connection.has_waiting_requests = True

    def _take_head(self, connection: Connection) -> bytes:
        head, connection.head = connection.head, b""
        if len(head) > request_memory.COUNTED_HEAD_BYTES:
            self.space.drop(connection)
        return head

    def _receive_first(self, connection: Connection, now_ms: int) -> Generator[Frame, None, tuple[int, int]]:
        """The size that was asked for, and the size that came; -1 when nothing is there, 0 when nothing will come."""
        head = connection.head
        window = self._window if self._has_window(len(head) + READ_BYTES) else None
        if window is not None:
            view, start = self._view, window + self._window_used
        else:
            view, start = self._private_space(len(head) + READ_BYTES), 0
        at = start + len(head)
        wanted = PEEK_BYTES if connection.large_frames else READ_BYTES
        try:
            got = connection.sock.recv_into(view[at : at + wanted])
        except BlockingIOError:
            return wanted, -1
        if got == 0:
            return wanted, 0
        if head:
            view[start:at] = self._take_head(connection)
            self.unfinished.discard(connection)
        connection.last_active_ms = now_ms
        yield from self._split(connection, view, start, at + got, window)
        return wanted, got

    def _has_window(self, needed: int) -> bool:
        if self._window is not None:
            if WINDOW_BYTES - self._window_used >= needed:
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

    def _private_space(self, needed: int) -> memoryview:
        if len(self._private) < needed:
            self._private = memoryview(bytearray(needed))
        return self._private

    def _split(
        self, connection: Connection, view: memoryview, start: int, end: int, window: int | None
    ) -> Generator[Frame, None, bool]:
        """Every complete request between `start` and `end` that may start; the rest is kept.

        `window` is None when `view` is not the arena. In the end False: the connection has to wait for space.
        """
        at, begun, unread = start, 0, self._unread
        while end - at >= 4:
            (length,) = LENGTH.unpack_from(view, at)
            if not SMALLEST_FRAME <= length <= self._max_request_bytes:
                raise Unacceptable.length(length, self._max_request_bytes, bytes(view[at : min(at + 16, end)]))
            if end - at - 4 < length:
                break
            (api_key,) = I16.unpack_from(view, at + 4)
            # A request that waits for its turn stays ahead of all later ones.
            waits = connection.parked is not None or not connection.may_start(request_class_of(api_key, length))
            if waits or (unread.is_over and unread.must_wait(connection, api_key)):
                self._keep_waiting(connection, bytes(view[at:end]))
                return True
            begun += 1
            if has_had_its_turn(begun, at - start + connection.out_bytes, is_produce=api_key == PRODUCE):
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
        """A complete Produce outside of the arena gets a place of its own there. None when it has to wait."""
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
        """Keep a part of a request, or make room for the whole when it is a large one."""
        if len(rest) >= 6:
            total = LENGTH.unpack_from(rest)[0] + 4
            if connection.frames_read == 0 and (stranger := foreign_protocol(bytes(rest[:16]))):
                raise Unacceptable(f"this looks like {stranger}")
            # Nothing is reserved for a request that may not start: a long poll before it can take any time.
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
                # The largest request has to fit when all others are done: the window with its rest goes first.
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
        wanted = len(filling.view) - filling.got
        try:
            got = connection.sock.recv_into(filling.view[filling.got :])
        except BlockingIOError:
            return wanted, -1
        if got:
            filling.got += got
            self.came += got
            connection.last_active_ms = now_ms
        if filling.got == filling.total:
            self.unfinished.discard(connection)
        return wanted, got

    def _filled(self, connection: Connection, filling: Filling) -> Iterator[Frame]:
        """A large request that is complete now, unless it has to wait for space."""
        extent, frame = filling.arena_extent, filling.view[4:]
        if extent is not None:
            self.places.became_whole(filling.total)
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
        """Move an incomplete request out of the arena; False when private memory has no room for it."""
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
        """More room for a request in private memory; False when its connection has to wait for it."""
        filling = connection.filling
        assert filling is not None, "only a request that has begun grows"
        size = next_step(filling.got, filling.total)
        if not self.space.grow(connection, size):
            return False
        # Into a view, as a bytearray first makes a copy of what is assigned to a slice of it.
        grown = memoryview(memory_for(size))
        grown[: filling.got] = filling.view
        filling.view = grown
        return True

    def forget(self, connection: Connection) -> None:
        """The connection ends: give back its place in the arena."""
        self.unfinished.discard(connection)
        self.places.queue.leave(connection)
        self.space.release(connection)
        self.next_pass.pop(connection, None)
        filling, connection.filling = connection.filling, None
        if filling is not None and filling.arena_extent is not None:
            self.places.abandon(filling.arena_extent, filling.total)
        connection.head, connection.has_waiting_requests = b"", False
