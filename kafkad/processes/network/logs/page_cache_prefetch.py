"""Checks before a file slice is sent: its bytes are in the page cache, and the log was not truncated.

`sendfile` would wait for the disk in the middle of the loop, and one cold consumer would delay all others. So before
the first byte of a file slice is sent, its first and last page are read without waiting (RWF_NOWAIT). If one is
missing, a thread reads the whole slice, and then the connection continues.

A truncated log may get other bytes at the positions of a reply, so an earlier reply is aborted with its connection. The
owner of the log marks the truncation in the slot, and truncates after all passes that began before.
"""

import os
from collections.abc import Callable

from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.logs.cached_reads import is_cached
from kafkad.processes.network.logs.reading_threads import ReadingThreads
from kafkad.wire.messages.fetch import FileSlice

_STEP_BYTES = 256 * 1024

Probe = Callable[[int, int], bool]
"""(descriptor, position): whether that byte is in the page cache."""


class PageCachePrefetch:
    """The cold reads of one network process. `ready` is called with a connection that may continue to send.

    `truncated_in` returns the generation of the last truncation of a slot's log.
    """

    def __init__(
        self,
        ready: Callable[[Connection], None],
        threads: ReadingThreads,
        truncated_in: Callable[[int], int],
        probe: Probe = is_cached,
    ) -> None:
        self._ready = ready
        self._threads = threads
        self._truncated_in = truncated_in
        self._probe = probe

    def check(self, piece: FileSlice) -> None:
        """Raises ConnectionAbortedError if the log was truncated since the reply was built."""
        if self._truncated_in(piece.slot) > piece.generation:
            raise ConnectionAbortedError("the log was truncated while records were sent")

    def is_cached(self, connection: Connection, piece: FileSlice) -> bool:
        """Whether `piece` can be sent now. If not, a thread reads it, and `connection` is marked as waiting."""
        last = piece.position + piece.length - 1
        if self._probe(piece.fd, piece.position) and self._probe(piece.fd, last):
            piece.is_cached = True
            return True

        def done(_: object) -> None:
            # After a failed read, `sendfile` raises the same error.
            connection.is_prefetching = False
            if not connection.closed:
                self._ready(connection)

        # With its own descriptor: the connection and its file may be closed before the read completes.
        self._threads.submit(done, _read_through, os.dup(piece.fd), piece.position, piece.length)
        # Prefetch only once, even if the pages were evicted again.
        piece.is_cached = True
        connection.is_prefetching = True
        return False


def _read_through(fd: int, position: int, length: int) -> None:
    try:
        end = position + length
        while position < end:
            size = len(os.pread(fd, min(_STEP_BYTES, end - position), position))
            if size == 0:
                return
            position += size
    finally:
        os.close(fd)
