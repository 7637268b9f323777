"""A queue of small messages in shared memory between two processes: one writer, one reader, no lock.

For the frequent messages between network processes and workers. A ZeroMQ message costs a thread switch on both ends
even if the receiver is awake (27 us of CPU for a single message); a ring costs two stores. An eventfd wakes sleeping
receivers only. Each message contains the incarnations of both ends, so messages to a dead process can't reach its next
incarnation.
"""

import os
from collections import deque
from struct import Struct
from threading import Lock

from kafkad.adapters.shared_memory.shared_region import SharedRegion

RING_BYTES = 256 * 1024
"""The size of one ring. Sparse: only used pages take memory."""
_CONTROL_BYTES = 128
DATA_BYTES = RING_BYTES - _CONTROL_BYTES
LARGEST_MESSAGE = DATA_BYTES // 4
"""Small enough to fit into an empty ring at any position."""
_HEAD, _TAIL = 0, 8
"""Words of the control part on separate cache lines: total bytes written, total bytes read."""
_WARM_BYTES = 16 * 1024
"""After this many bytes an empty ring restarts at its beginning, to reuse the same cached pages."""
_HEADER = Struct("<III")
_WRAP = 0xFFFFFFFF
BACKLOG_MESSAGES = 100_000
"""The most messages that wait for a process that does not read, on a ring and on a link."""


class RingOverflow(Exception):
    """The local queue is full, because the reader does not read; waiting would block this process too."""


_fence = Lock()


def full_fence() -> None:
    """Make all stores visible before the next loads: an uncontended lock is an atomic read-modify-write.

    Without the fence, "the reader sleeps" and "there is a message" could both be missed, and a wake-up lost.
    """
    _fence.acquire()
    _fence.release()


class Doorbell:
    """Wakes a process: an eventfd, and the word that marks the process as sleeping.

    The process polls the eventfd edge-triggered and never reads it: each write is an edge.
    """

    __slots__ = ("_index", "_words", "fd")

    def __init__(self, words: memoryview, index: int, fd: int) -> None:
        self._words = words
        self._index = index
        self.fd = fd

    def mark_asleep(self) -> None:
        """Mark the process as sleeping. After this call it must check the rings again before it waits."""
        self._words[self._index] = 1
        full_fence()

    def mark_awake(self) -> None:
        self._words[self._index] = 0

    def ring_if_asleep(self) -> None:
        """Called after a message was published: wake the reader, if it sleeps and was not woken yet."""
        full_fence()
        if self._words[self._index]:
            self._words[self._index] = 0
            os.eventfd_write(self.fd, 1)


class _Ring:
    """The memory of one ring: two increasing counters, then the data."""

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
        """Whether the next `flush` must wake the reader."""

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog)

    def send(self, message: bytes, *, wakes: bool = True) -> None:
        """Send a message, now or when the ring has space, in order; `flush` wakes the reader. Raises RingOverflow.

        A message without `wakes` does not wake the reader, unless the ring is more than half full.
        """
        if self._backlog or not self._put(message):
            if len(self._backlog) >= BACKLOG_MESSAGES:
                raise RingOverflow(f"{len(self._backlog)} messages wait for a process that does not read")
            self._backlog.append(message)
            self.rings_pending = True
        elif wakes or self._words[_HEAD] - self._words[_TAIL] > DATA_BYTES // 2:
            self.rings_pending = True

    def flush(self) -> None:
        """Called at the end of a loop pass: send messages of the backlog, and wake the reader if necessary."""
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
        required = (_HEADER.size + size + 7) & ~7
        head, tail = words[_HEAD], words[_TAIL]
        at = head % DATA_BYTES
        to_end = DATA_BYTES - at
        # Restart at the beginning early only if the message fits: an empty ring must take any message.
        skipped = to_end if to_end < required or (head == tail and at > _WARM_BYTES and at >= required) else 0
        if head + skipped + required - tail > DATA_BYTES:
            return False
        if skipped:
            if to_end >= _HEADER.size:
                _HEADER.pack_into(data, at, _WRAP, 0, 0)
            head, at = head + skipped, 0
        _HEADER.pack_into(data, at, size, *self._incarnations)
        data[at + _HEADER.size : at + _HEADER.size + size] = message
        # The message is complete before it is published: x86 does not reorder stores (docs/decisions).
        words[_HEAD] = head + required
        return True


class RingReader(_Ring):
    """The receiving end, for one incarnation of the writer and one of the reader.

    Messages with an earlier incarnation of either end are skipped. Messages of a later incarnation of the writer remain
    for the reader of that incarnation.
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
