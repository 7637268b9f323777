"""Which offset bounds read_committed? That of the oldest transaction that is open or unreplicated.

A transaction is open from its first batch to its marker. It is unreplicated until the high watermark has passed the
marker: before that, a new leader might lack the marker. Until a marker is on disk, compaction must ignore it too:
after a power failure its transaction is open again.
"""

from kafkad.core.types import LogPosition

_NEVER = 2**63


class OpenTransactions:
    """Keyed by first offset. Offsets only increase, so `_open` is ordered by first offsets, `_completed` by the
    offsets of the markers."""

    __slots__ = ("_completed", "_open", "_positions", "_unsynced")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """First offset → producer id."""
        self._completed: dict[int, int] = {}
        """First offset → offset of the marker, which may not be replicated yet."""
        self._positions: dict[int, LogPosition] = {}
        """Positions of the first offsets of transactions that started since the log was loaded."""
        self._unsynced: dict[int, int] = {}
        """First offset → offset of the marker, which is in a later segment and may be unsynced."""

    @property
    def first_open(self) -> int | None:
        """The first offset of the oldest transaction without a marker."""
        return next(iter(self._open), None)

    @property
    def first_unstable(self) -> int | None:
        """The first offset of the oldest transaction that is open or unreplicated. Read in each pass of a worker,
        mostly for partitions without transactions."""
        if not self._completed:
            for first_open in self._open:
                return first_open
            return None
        return min(min(self._completed), next(iter(self._open), _NEVER))

    def first_open_of_others(self, producer_id: int) -> int | None:
        """The first offset of the oldest open transaction of another producer."""
        return next((offset for offset, owner in self._open.items() if owner != producer_id), None)

    def position_of(self, first_offset: int) -> LogPosition | None:
        return self._positions.get(first_offset)

    def begin(self, first_offset: int, producer_id: int, position: LogPosition | None = None) -> None:
        self._open[first_offset] = producer_id
        if position is not None:
            self._positions[first_offset] = position

    def complete(self, first_offset: int, last_offset: int) -> None:
        self._open.pop(first_offset, None)
        self._completed[first_offset] = last_offset

    def replicated(self, high_watermark: int) -> None:
        """Markers below the high watermark are replicated."""
        while self._completed:
            first_offset, last_offset = next(iter(self._completed.items()))
            if last_offset >= high_watermark:
                return
            del self._completed[first_offset]
            self._positions.pop(first_offset, None)

    def ended_in_later_segment(self, first_offset: int, last_offset: int) -> None:
        """Record a marker until it is synced; at most one for each transaction that was open at a roll."""
        self._unsynced[first_offset] = last_offset

    def synced(self, recovery_point: int) -> None:
        """Markers below the recovery point are on disk."""
        if self._unsynced:
            self._unsynced = {first: last for first, last in self._unsynced.items() if last >= recovery_point}

    def first_unsynced(self, recovery_point: int) -> int | None:
        """The first offset of the oldest transaction whose marker a power failure may lose."""
        return min((first for first, last in self._unsynced.items() if last >= recovery_point), default=None)

    @property
    def end_of_unsynced(self) -> int:
        """All markers are on disk once the log is synced up to here."""
        return max(self._unsynced.values(), default=-1) + 1

    def unsafe(self) -> tuple[dict[int, int], dict[int, int]]:
        """Ended transactions with unreplicated markers, and those with unsynced markers; for `keep_unsafe`."""
        return dict(self._completed), dict(self._unsynced)

    def keep_unsafe(self, before: tuple[dict[int, int], dict[int, int]], log_end_offset: int) -> None:
        """Restore `unsafe` after a reload from a snapshot, which contains no ended transactions."""
        self._completed = _kept(before[0], self._completed, log_end_offset)
        self._unsynced = _kept(before[1], self._unsynced, log_end_offset)

    def clear_positions(self) -> None:
        """Drop cached positions: the files were truncated or replaced."""
        self._positions.clear()

    def clear(self) -> None:
        self._open.clear()
        self._completed.clear()
        self._positions.clear()
        self._unsynced.clear()


def _kept(before: dict[int, int], now: dict[int, int], log_end_offset: int) -> dict[int, int]:
    """In the order of the markers."""
    kept = {first: last for first, last in before.items() if last < log_end_offset}
    return dict(sorted({**kept, **now}.items(), key=lambda row: row[1]))
