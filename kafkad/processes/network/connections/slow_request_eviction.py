"""Slow incomplete requests give way when other requests wait for their memory.

This is checked only while a connection waits: otherwise slow clients do no harm. Requests in the arena move to private
memory, where they take only as much as has arrived. There, and if there is no room, the slowest connections are closed
until half of the memory is free: their clients begin again.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from kafkad.adapters.operating_system.process_limits import release_free_memory
from kafkad.core.waiting.slow_requests import (
    CHECK_INTERVAL_MS,
    STUCK_BYTES,
    CheckedTransfer,
    SlowRequests,
    Transfer,
    select_for_bytes,
)
from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.frame_reader import FrameReader

log = logging.getLogger(__name__)

SAID_AGAIN_MS = 60_000
NAMED = 5

_Transfer = Transfer[Connection]


class SlowRequestEviction:
    """One for each network process. `close` ends a connection, with a log line if it gets a reason."""

    def __init__(self, reader: FrameReader, close: Callable[[Connection, str | None], None]) -> None:
        self._reader = reader
        self._close = close
        self._requests: SlowRequests[Connection] = SlowRequests()
        self._said_at_ms: int | None = None
        self.next_check_ms: int | None = None

    @property
    def is_requested(self) -> bool:
        """A connection waits, or did at the last look."""
        reader = self._reader
        return bool(reader.places.is_short or reader.starved or reader.space.is_short or self.next_check_ms is not None)

    def tick(self, now_ms: int) -> None:
        """In each pass while `is_requested`."""
        if self.next_check_ms is not None and now_ms < self.next_check_ms:
            return
        reader = self._reader
        if not (reader.places.is_short or reader.starved or reader.space.is_short):
            self._requests.reset()
            self.next_check_ms = None
            release_free_memory()
            return
        is_first = self.next_check_ms is None
        self.next_check_ms = now_ms + CHECK_INTERVAL_MS
        # If the queue waits for the worker, no client is at fault.
        came = STUCK_BYTES if reader.starved else reader.came
        reader.came = 0
        begun = list(self._begun())
        seen = self._requests.check(begun, came)
        if not is_first:
            self._say(begun, now_ms)
            abandoned = self._clear_arena(seen) + self._clear_private(seen)
            self._abandon(abandoned)
            reader.places.is_short = False

    def _begun(self) -> Iterator[_Transfer]:
        space = self._reader.space
        for connection in {**dict.fromkeys(self._reader.unfinished), **dict.fromkeys(space.holders)}:
            filling = connection.filling
            if filling is None:
                got, held = len(connection.head), len(connection.head)
            elif filling.got == filling.total:
                continue
            else:
                got = filling.got
                held = space.held_by(connection) if filling.arena_extent is None else filling.total
            yield Transfer(connection, connection.frames_read, got, held, not connection.is_read)

    def _clear_arena(self, seen: Sequence[CheckedTransfer[Connection]]) -> list[_Transfer]:
        """Move slow requests out of the arena, and all incomplete ones if complete requests wait.

        Returns those without room.
        """
        reader = self._reader
        abandoned = []
        for begun, _progress, is_slow in reversed(seen):
            filling = begun.owner.filling
            if filling is None or filling.arena_extent is None or not (is_slow or reader.starved):
                continue
            if not reader.move_out(begun.owner) and is_slow and reader.starved:
                abandoned.append(begun)
        return abandoned

    def _clear_private(self, seen: Sequence[CheckedTransfer[Connection]]) -> list[_Transfer]:
        space = self._reader.space
        if not space.is_short:
            return []
        slow = [each.transfer._replace(held_bytes=space.held_by(each.transfer.owner)) for each in seen if each.is_slow]
        return select_for_bytes([begun for begun in slow if begun.held_bytes], space.surplus)

    def _abandon(self, abandoned: Sequence[_Transfer]) -> None:
        for begun in abandoned:
            self._close(
                begun.owner, f"its request of {begun.held_bytes} bytes comes too slowly while others wait for memory"
            )

    def _say(self, begun: Sequence[_Transfer], now_ms: int) -> None:
        """Log this once, and again when it lasts."""
        if not begun or (self._said_at_ms is not None and now_ms - self._said_at_ms < SAID_AGAIN_MS):
            return
        self._said_at_ms = now_ms
        log.warning(
            "memory for requests is short: %d requests that have begun hold %d bytes of it: %s",
            len(begun),
            sum(each.held_bytes for each in begun),
            _names(begun),
        )


def _names(begun: Sequence[Transfer[Connection]]) -> str:
    """The connections with the most unread bytes, and how many."""
    most = sorted(begun, key=lambda each: each.held_bytes, reverse=True)
    named = ", ".join(f"{each.owner.peer} {each.held_bytes} bytes" for each in most[:NAMED])
    return named + (f" and {len(most) - NAMED} more" if len(most) > NAMED else "")
