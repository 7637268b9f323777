"""From socket to whole requests: where received bytes are put, and when a connection has to wait.

A Produce is received into the shared arena and stays there until its owner has written it. Small requests
land in a window of the arena that is used again at once when nothing in it has to stay; a request that is
larger than what came in one piece gets its whole space at once, first come first served. No space: the
connection waits in line, which is the back-pressure. Everything but Produce is read into private memory, whose
bounds are `private_space`'s.
Idle connections hold nothing, and neither does a request that may not start yet.
"""

from collections.abc import Callable

from kafkad.adapters.arena import Arena
from kafkad.processes.network.connection import Connection, Filling, Frame, lane_of
from kafkad.processes.network.private_space import PrivateSpace, next_step
from kafkad.wire.api_table import APIS, PRODUCE
from kafkad.wire.framing import LENGTH, describe_stranger, read_header
from kafkad.wire.primitives import I16, MalformedRequest
from kafkad.wire.request_limits import LARGEST_BYTES

WINDOW_BYTES = 256 * 1024
READ_BYTES = 32 * 1024
PEEK_BYTES = 512
"""How much is read first where the last request was large: what follows goes straight to its place."""
LARGE_FRAME_BYTES = READ_BYTES
SMALLEST_FRAME = 8
PASS_BYTES = 1 << 20
"""What one connection may receive in one loop pass before the others get their turn."""
_ALIGN = 63


class Unacceptable(Exception):
    """What the peer sent can't be a request: the connection is closed with this reason in one log line."""


class FrameReader:
    """Receives for all connections of a network process."""

    def __init__(
        self,
        arena: Arena,
        space: PrivateSpace,
        max_request_bytes: int,
        on_frame: Callable[[Connection, Frame], None],
    ) -> None:
        self._arena = arena
        self.space = space
        self._view = arena.view
        self._max_request_bytes = max_request_bytes
        self._on_frame = on_frame
        self._window: int | None = None
        self._window_used = 0
        self._private = memoryview(b"")
        self.starved: dict[Connection, None] = {}
        """Connections that wait for arena space, in order. While there are any, nobody else gets some."""
        self.times_starved = 0
        self.unfinished: set[Connection] = set()
        """Connections in the middle of a request: how long its rest takes is up to the peer."""

    @property
    def lent_bytes(self) -> int:
        """What requests hold of the arena."""
        spare = WINDOW_BYTES if self._window is not None and self._window_used == 0 else 0
        return self._arena.used_bytes - spare

    def reuse_window(self) -> None:
        """No Produce is under way: nothing in the window has to stay."""
        self._window_used = 0

    def receive(self, connection: Connection, now_ms: int) -> bool:
        """Read what is there and hand on whole requests; False when the peer has closed.

        Raises Unacceptable, OSError.
        """
        budget = PASS_BYTES
        while budget > 0 and not connection.closed:
            filling = connection.filling
            if filling is not None:
                wanted, got = self._receive_rest(connection, filling, now_ms)
            elif connection.is_blocked() or connection in self.starved or connection in self.space.crowded:
                return True
            else:
                wanted, got = self._receive_first(connection, now_ms)
            if got == 0:
                return False
            if got < wanted:
                return True
            budget -= got
        return True

    def resume(self, connection: Connection) -> bool:
        """Hand on what had to wait; False if it has to wait for space (again). Raises Unacceptable."""
        head, connection.head = connection.head, b""
        connection.is_held = False
        if self._split(connection, memoryview(head), 0, len(head), None):
            self.starved.pop(connection, None)
            self.space.crowded.pop(connection, None)
            return True
        return False

    def _receive_first(self, connection: Connection, now_ms: int) -> tuple[int, int]:
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
            view[start:at] = head
            connection.head = b""
            self.unfinished.discard(connection)
        connection.last_active_ms = now_ms
        self._split(connection, view, start, at + got, window)
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

    def _split(self, connection: Connection, view: memoryview, start: int, end: int, window: int | None) -> bool:
        """Hand on every whole request between `start` and `end`; keep what is left over.

        `window` is None when `view` is not the arena. False: the connection has to wait for space.
        """
        at = start
        while end - at >= 4:
            (length,) = LENGTH.unpack_from(view, at)
            if not SMALLEST_FRAME <= length <= self._max_request_bytes:
                raise Unacceptable(self._bad_length(length, bytes(view[at : min(at + 16, end)])))
            if end - at - 4 < length:
                break
            (api_key,) = I16.unpack_from(view, at + 4)
            if not connection.may_start(lane_of(api_key, length)):
                connection.head, connection.is_held = bytes(view[at:end]), True
                return True
            connection.large_frames = length > LARGE_FRAME_BYTES
            frame_at, behind = at + 4, at + 4 + length
            if api_key != PRODUCE:
                self._dispatch(connection, memoryview(bytes(view[frame_at:behind])), None, 0)
            elif window is not None:
                self._arena.retain(window)
                self._window_used = (behind - window + _ALIGN) & ~_ALIGN
                self._dispatch(connection, view[frame_at:behind], window, frame_at)
            elif not self._hand_on_copy(connection, view[frame_at:behind]):
                return self._starve(connection, bytes(view[at:end]))
            if connection.closed:
                return True
            at = behind
        return self._keep_rest(connection, view[at:end]) if at < end else True

    def _hand_on_copy(self, connection: Connection, frame: memoryview) -> bool:
        """A Produce that was not received into the arena gets a place of its own there."""
        extent = self._reserve(connection, len(frame))
        if extent is None:
            return False
        target = self._view[extent : extent + len(frame)]
        target[:] = frame
        self._dispatch(connection, target, extent, extent)
        return True

    def _reserve(self, connection: Connection, size: int) -> int | None:
        """Space for one request, unless somebody came before who waits for some."""
        if self.starved and next(iter(self.starved)) is not connection:
            return None
        return self._arena.reserve(size)

    def _starve(self, connection: Connection, head: bytes) -> bool:
        connection.head = head
        if connection not in self.starved:
            self.starved[connection] = None
            self.times_starved += 1
        self._drop_window()
        return False

    def _dispatch(self, connection: Connection, view: memoryview, extent: int | None, offset: int) -> None:
        connection.frames_read += 1
        try:
            header = read_header(view)
        except MalformedRequest as error:
            if extent is not None:
                self._arena.release(extent)
            raise Unacceptable(f"a request header can't be read: {error}") from error
        self._on_frame(connection, Frame(header, view, extent, offset))

    def _keep_rest(self, connection: Connection, rest: memoryview) -> bool:
        """Part of a request is here: remember it, or make room for the whole when it is a large one."""
        if len(rest) >= 6:
            total = LENGTH.unpack_from(rest)[0] + 4
            if connection.frames_read == 0 and (stranger := describe_stranger(bytes(rest[:16]))):
                raise Unacceptable(f"this looks like {stranger}")
            # Nothing is reserved for a request that may not start: a long poll before it can take any time.
            if total > LARGE_FRAME_BYTES // 2 and not connection.is_blocked():
                return self._start_filling(connection, rest, total)
        connection.head = bytes(rest)
        self.unfinished.add(connection)
        return True

    def _start_filling(self, connection: Connection, rest: memoryview, total: int) -> bool:
        connection.large_frames = total > LARGE_FRAME_BYTES
        got = len(rest)
        if I16.unpack_from(rest, 4)[0] == PRODUCE:
            extent = self._reserve(connection, total)
            if extent is None:
                # The largest request has to fit once everybody else is done: not beside a window, where its rest is.
                rest = memoryview(bytes(rest))
                self._drop_window()
                extent = self._reserve(connection, total)
            if extent is None:
                return self._starve(connection, bytes(rest))
            target = self._view[extent : extent + total]
        else:
            if total - LENGTH.size > LARGEST_BYTES:
                raise Unacceptable(self._too_large(rest, total - LENGTH.size))
            extent = None
            size = next_step(got, total)
            if not self.space.grow(connection, size):
                connection.head = bytes(rest)
                return False
            target = memoryview(bytearray(size))
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
        filling.got += got
        if got:
            connection.last_active_ms = now_ms
        if filling.got == filling.total:
            self.unfinished.discard(connection)
            connection.filling = None
            if filling.arena_extent is None:
                self.space.release(connection)
            offset = filling.arena_extent + 4 if filling.arena_extent is not None else 0
            self._dispatch(connection, filling.view[4:], filling.arena_extent, offset)
        return wanted, got

    def grow(self, connection: Connection) -> bool:
        """More room for a request in private memory; False when its connection has to wait for it."""
        filling = connection.filling
        assert filling is not None, "only a request that has begun grows"
        size = next_step(filling.got, filling.total)
        if not self.space.grow(connection, size):
            return False
        grown = bytearray(size)
        grown[: filling.got] = filling.view
        filling.view = memoryview(grown)
        return True

    def _too_large(self, rest: memoryview, length: int) -> str:
        api = APIS.get(I16.unpack_from(rest, 4)[0])
        name = "" if api is None else f" for {api.name}"
        return f"a request length of {length} bytes{name} is more than the {LARGEST_BYTES} that are taken at most"

    def _bad_length(self, length: int, first: bytes) -> str:
        stranger = describe_stranger(first)
        if stranger is not None:
            return f"this looks like {stranger}"
        return f"a request length of {length} bytes is outside {SMALLEST_FRAME} to {self._max_request_bytes}"

    def forget(self, connection: Connection) -> None:
        """Nothing more will come of the connection: give back what it held in the arena."""
        self.unfinished.discard(connection)
        self.starved.pop(connection, None)
        self.space.release(connection)
        if connection.filling is not None and connection.filling.arena_extent is not None:
            self._arena.release(connection.filling.arena_extent)
        connection.filling = None
        connection.head, connection.is_held = b"", False
