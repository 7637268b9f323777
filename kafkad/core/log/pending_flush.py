"""Which records of a log must still be synced, and which appends wait for the sync?

One effect serves all requests that were made before the sync starts. With `flush.messages` Apache Kafka flushes within
the append; kafkad holds the batch back until a thread has synced it.
"""

from collections import deque

from kafkad.core.ports import LogFile

_NOTHING = -1


class PendingFlush:
    """The requested syncs of one `PartitionLog`; mutable."""

    __slots__ = ("_up_to", "_written", "held_back", "requested_ms")

    def __init__(self, written: LogFile, now_ms: int) -> None:
        """`written`: a file that an earlier process may have left unsynced."""
        self._up_to = _NOTHING
        self._written = [written]
        self.requested_ms = now_ms
        self.held_back: deque[tuple[int, int]] = deque()
        """(first offset, end) of the batches that reached `flush.messages`, until they are on disk."""

    @property
    def is_requested(self) -> bool:
        return self._up_to != _NOTHING

    def request(self, up_to: int, now_ms: int) -> None:
        self.requested_ms = now_ms
        self._up_to = max(self._up_to, up_to)

    def take(self, recovery_point: int) -> int | None:
        """The offset up to which a sync is requested; None if all requests are done."""
        up_to, self._up_to = self._up_to, _NOTHING
        is_done = up_to == _NOTHING or (up_to <= recovery_point and not self._written)
        return None if is_done else up_to

    def hold_back(self, first_offset: int, end: int, recovery_point: int, flush_messages: int, now_ms: int) -> None:
        """Hold back the append of a batch until it is synced, unless syncs already requested leave fewer than
        `flush_messages` records unsynced.
        """
        flushed = self.held_back[-1][1] if self.held_back else recovery_point
        if end - flushed >= flush_messages:
            self.held_back.append((first_offset, end))
            self.request(end, now_ms)

    def reached(self, recovery_point: int) -> None:
        held_back = self.held_back
        while held_back and held_back[0][1] <= recovery_point:
            held_back.popleft()

    def add_written(self, file: LogFile | None) -> None:
        """Keep a written file that is no segment open until the next sync. None: no file is unsynced."""
        if file is not None:
            self._written.append(file)

    def take_written(self) -> list[LogFile]:
        written, self._written = self._written, []
        return written
