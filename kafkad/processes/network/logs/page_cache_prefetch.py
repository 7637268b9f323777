"""What must hold before a file slice is sent: its bytes are in the page cache, and they are still those of the reply.

Threads make reads that the page cache does not have: one cold consumer must not delay all others.

`sendfile` would wait for the disk in the middle of the loop. So before the first byte of a file slice is sent, its
first and last page are read without waiting (RWF_NOWAIT). If one is missing, a thread reads the whole slice, and the
connection goes on when that is done.

A log that was truncated gets other bytes where the reply's were, so a reply from before ends with its connection. The
owner of the log says so in its slot, and truncates when the passes of before are over.
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
    """The cold reads of one network process. `ready` is called with a connection that may go on sending.

    `truncated_in` is the generation in which the log of a slot was truncated last.
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
        """Raises ConnectionAbortedError if the log is truncated since the reply was made, at any place."""
        if self._truncated_in(piece.slot) > piece.generation:
            raise ConnectionAbortedError("the log was truncated while records were sent")

    def is_cached(self, connection: Connection, piece: FileSlice) -> bool:
        """Whether `piece` can be sent now. If not, a thread reads it, and `connection` is marked as waiting for it."""
        last = piece.position + piece.length - 1
        if self._probe(piece.fd, piece.position) and self._probe(piece.fd, last):
            piece.is_cached = True
            return True

        def done(_: object) -> None:
            # If the slice can't be read, `sendfile` will raise the same error.
            connection.is_prefetching = False
            if not connection.closed:
                self._ready(connection)

        # A descriptor of its own: the connection may be gone, and its file closed, before the disk has answered.
        self._threads.submit(done, _read_through, os.dup(piece.fd), piece.position, piece.length)
        # Once is enough, also if memory is so short that the pages are gone again.
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
