"""Slow incomplete requests are evicted when other requests wait for their memory.

This is checked only while a connection waits: otherwise slow clients do no harm. Requests in the arena are moved to
private memory, where they hold only their received bytes. If private memory is short, the slowest connections are
closed until half of the memory is free; their clients retry.
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

LOG_INTERVAL_MS = 60_000
NAMED = 5

_Transfer = Transfer[Connection]


class SlowRequestEviction:
    """One for each network process. `close` ends a connection, with a log line if it gets a reason."""

    def __init__(self, reader: FrameReader, close: Callable[[Connection, str | None], None]) -> None:
        self._reader = reader
        self._close = close
        self._requests: SlowRequests[Connection] = SlowRequests()
        self._logged_at_ms: int | None = None
        self.next_check_ms: int | None = None

    @property
    def is_requested(self) -> bool:
        """Whether a connection waits, or did at the last check."""
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
        received_bytes = STUCK_BYTES if reader.starved else reader.received_bytes
        reader.received_bytes = 0
        transfer = list(self._transfers())
        checked = self._requests.check(transfer, received_bytes)
        if not is_first:
            self._log_shortage(transfer, now_ms)
            abandoned = self._clear_arena(checked) + self._clear_private(checked)
            self._abandon(abandoned)
            reader.places.is_short = False

    def _transfers(self) -> Iterator[_Transfer]:
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

    def _clear_arena(self, checked: Sequence[CheckedTransfer[Connection]]) -> list[_Transfer]:
        """Move slow requests out of the arena, and all incomplete ones if complete requests wait.

        Returns the requests that can't be moved.
        """
        reader = self._reader
        abandoned = []
        for transfer, _progress, is_slow in reversed(checked):
            filling = transfer.owner.filling
            if filling is None or filling.arena_extent is None or not (is_slow or reader.starved):
                continue
            if not reader.move_out(transfer.owner) and is_slow and reader.starved:
                abandoned.append(transfer)
        return abandoned

    def _clear_private(self, checked: Sequence[CheckedTransfer[Connection]]) -> list[_Transfer]:
        space = self._reader.space
        if not space.is_short:
            return []
        slow = [
            each.transfer._replace(held_bytes=space.held_by(each.transfer.owner)) for each in checked if each.is_slow
        ]
        return select_for_bytes([transfer for transfer in slow if transfer.held_bytes], space.surplus)

    def _abandon(self, abandoned: Sequence[_Transfer]) -> None:
        for transfer in abandoned:
            self._close(
                transfer.owner,
                f"its request of {transfer.held_bytes} bytes comes too slowly while others wait for memory",
            )

    def _log_shortage(self, transfer: Sequence[_Transfer], now_ms: int) -> None:
        """Log the shortage once, and once a minute while it lasts."""
        if not transfer or (self._logged_at_ms is not None and now_ms - self._logged_at_ms < LOG_INTERVAL_MS):
            return
        self._logged_at_ms = now_ms
        log.warning(
            "memory for requests is short: %d incomplete requests hold %d bytes: %s",
            len(transfer),
            sum(each.held_bytes for each in transfer),
            _names(transfer),
        )


def _names(transfer: Sequence[Transfer[Connection]]) -> str:
    """The connections with the most bytes."""
    most = sorted(transfer, key=lambda each: each.held_bytes, reverse=True)
    named = ", ".join(f"{each.owner.peer} {each.held_bytes} bytes" for each in most[:NAMED])
    return named + (f" and {len(most) - NAMED} more" if len(most) > NAMED else "")
