"""A queue of small messages in shared memory, from one process to one other: one writer, one reader, no lock.

For messages that come once or more per request, between network processes and workers. A ZeroMQ message costs a
thread switch on both ends even when the receiver is awake (27 us of CPU for one alone); this costs two stores. Only
a sleeping receiver is woken, through an eventfd. Every message names the incarnations of both ends, so a message
queued for a dead process can't reach its successor.
"""

import os
from collections import deque
from struct import Struct
from threading import Lock

from kafkad.adapters.shared_memory.shared_region import SharedRegion

RING_BYTES = 256 * 1024
"""The size of one ring. Sparse: only pages in use are ever touched."""
_CONTROL_BYTES = 128
DATA_BYTES = RING_BYTES - _CONTROL_BYTES
LARGEST_MESSAGE = DATA_BYTES // 4
"""Small enough to fit into an empty ring at any position."""
_HEAD, _TAIL = 0, 8
"""Words of the control part: bytes ever written, and bytes ever read. On cache lines of their own."""
_WARM_BYTES = 16 * 1024
"""An empty ring starts again at its beginning after this many bytes, so the same cached pages are reused."""
_HEADER = Struct("<III")
_WRAP = 0xFFFFFFFF
BACKLOG_MESSAGES = 100_000
"""Messages that may wait for a process that does not read, on a ring and on a link."""


class RingOverflow(Exception):
    """The local queue is full, because the reader has stopped reading; waiting for it would block this process too."""


_fence = Lock()


def full_fence() -> None:
    """Make our stores visible before our next loads: an uncontended lock is an atomic read-modify-write.

    Without it "I sleep" and "there is a message" can pass each other, and a wake-up is lost.
    """
    _fence.acquire()
    _fence.release()


class Doorbell:
    """Wakes a process: an eventfd, and the word with which the process says that it sleeps.

    The eventfd is waited for edge-triggered and never read: each write is an edge, whatever its counter holds.
    """

    __slots__ = ("_index", "_words", "fd")

    def __init__(self, words: memoryview, index: int, fd: int) -> None:
        self._words = words
        self._index = index
        self.fd = fd

    def falls_asleep(self) -> None:
        """The process is about to wait. It must look at the rings again after this call, before it waits."""
        self._words[self._index] = 1
        full_fence()

    def wakes_up(self) -> None:
        self._words[self._index] = 0

    def ring_if_asleep(self) -> None:
        """After a message was published: wake its reader, if it sleeps and was not woken yet."""
        full_fence()
        if self._words[self._index]:
            self._words[self._index] = 0
            os.eventfd_write(self.fd, 1)


class _Ring:
    """The memory of one ring: data behind two counters that only grow."""

    __slots__ = ("_data", "_words")

    def __init__(self, region: SharedRegion, number: int) -> None:
        start = number * RING_BYTES
        self._words = region.view[start : start + _CONTROL_BYTES].cast("Q")
        self._data = region.view[start + _CONTROL_BYTES : start + RING_BYTES]


class RingWriter(_Ring):
    """The sending end, for one incarnation of the writer and one of the reader."""

    __slots__ = ("_backlog", "_doorbell", "_incarnations", "rings_pending")

    def __init__(self, region: SharedRegion, number: int, incarnations: tuple[int, int], doorbell: Doorbell) -> None:
        super().__init__(region, number)
        self._incarnations = incarnations
        self._doorbell = doorbell
        self._backlog: deque[bytes] = deque()
        self.rings_pending = False
        """Whether the next `flush` wakes the reader."""

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog)

    def send(self, message: bytes, *, wakes: bool = True) -> None:
        """Send a message, now or when there is room, in order; `flush` wakes the reader. Raises RingOverflow.

        With `wakes` false the message waits until the reader is awake for some other reason, unless the ring fills up.
        """
        if self._backlog or not self._put(message):
            if len(self._backlog) >= BACKLOG_MESSAGES:
                raise RingOverflow(f"{len(self._backlog)} messages wait for a process that does not read")
            self._backlog.append(message)
            self.rings_pending = True
        elif wakes or self._words[_HEAD] - self._words[_TAIL] > DATA_BYTES // 2:
            self.rings_pending = True

    def flush(self) -> None:
        """End of a loop pass: send messages that had no room, and wake the reader if there are messages for it."""
        while self._backlog and self._put(self._backlog[0]):
            self._backlog.popleft()
            self.rings_pending = True
        if self.rings_pending:
            self.rings_pending = False
            self._doorbell.ring_if_asleep()

    def _put(self, message: bytes) -> bool:
        words, data = self._words, self._data
        size = len(message)
        assert size <= LARGEST_MESSAGE, f"a message of {size} bytes is too large for a ring"
        needed = (_HEADER.size + size + 7) & ~7
        head, tail = words[_HEAD], words[_TAIL]
        at = head % DATA_BYTES
        to_end = DATA_BYTES - at
        # Start again early only where that leaves room: an empty ring must take any message.
        skipped = to_end if to_end < needed or (head == tail and at > _WARM_BYTES and at >= needed) else 0
        if head + skipped + needed - tail > DATA_BYTES:
            return False
        if skipped:
            if to_end >= _HEADER.size:
                _HEADER.pack_into(data, at, _WRAP, 0, 0)
            head, at = head + skipped, 0
        _HEADER.pack_into(data, at, size, *self._incarnations)
        data[at + _HEADER.size : at + _HEADER.size + size] = message
        # The message is whole before it is published: stores do not pass each other on x86 (docs/decisions).
        words[_HEAD] = head + needed
        return True


class RingReader(_Ring):
    """The receiving end, for one incarnation of the writer and one of the reader.

    Messages of an earlier incarnation of either end are skipped. Messages of a later incarnation of the writer stay:
    the end that is opened for that incarnation reads them.
    """

    __slots__ = ("_incarnations", "_is_over")

    def __init__(self, region: SharedRegion, number: int, incarnations: tuple[int, int]) -> None:
        super().__init__(region, number)
        self._incarnations = incarnations
        self._is_over = False

    def has_input(self) -> bool:
        return self._words[_HEAD] != self._words[_TAIL] and not self._is_over

    def receive(self) -> list[bytes]:
        """All messages in the ring for these two incarnations."""
        words, data, incarnations = self._words, self._data, self._incarnations
        head, tail = words[_HEAD], words[_TAIL]
        messages: list[bytes] = []
        while tail != head:
            at = tail % DATA_BYTES
            if DATA_BYTES - at < _HEADER.size:
                tail += DATA_BYTES - at
                continue
            size, writer, reader = _HEADER.unpack_from(data, at)
            if size == _WRAP:
                tail += DATA_BYTES - at
                continue
            if writer > incarnations[0]:
                self._is_over = True
                break
            if (writer, reader) == incarnations:
                messages.append(bytes(data[at + _HEADER.size : at + _HEADER.size + size]))
            tail += (_HEADER.size + size + 7) & ~7
        words[_TAIL] = tail
        return messages
