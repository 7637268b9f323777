"""Which offset bounds read_committed? The transactions of a partition that are open, or whose markers are not
replicated yet.

A transaction is open from its first batch to its marker. It is unreplicated until the high watermark has passed the
marker: before that, a new leader might not know how it ended. The oldest of both kinds bounds what read_committed
sees. Until a marker is on disk, compaction must not judge by it either: after a loss of power its transaction is open
again.
"""

from kafkad.core.types import LogPosition

_NEVER = 2**63


class OpenTransactions:
    """Keyed by first offset. Offsets only grow, so both dicts are in the order of their offsets:
    `_open` of first offsets, `_completed` of the markers'."""

    __slots__ = ("_completed", "_open", "_places", "_unsynced")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """First offset → producer id."""
        self._completed: dict[int, int] = {}
        """First offset → offset of the marker, which may not be replicated yet."""
        self._places: dict[int, LogPosition] = {}
        """Positions of the first offsets of transactions that began since the log was loaded."""
        self._unsynced: dict[int, int] = {}
        """First offset → offset of the marker, which is in a later segment and may not be on disk yet."""

    @property
    def first_open(self) -> int | None:
        """Where the oldest transaction without a marker begins."""
        return next(iter(self._open), None)

    @property
    def first_unstable(self) -> int | None:
        """Where the oldest transaction begins that is open or unreplicated. Asked in each pass of a worker, and
        mostly of partitions without transactions."""
        if not self._completed:
            for first_open in self._open:
                return first_open
            return None
        return min(min(self._completed), next(iter(self._open), _NEVER))

    def first_open_of_others(self, producer_id: int) -> int | None:
        """Where the oldest open transaction of another producer begins."""
        return next((offset for offset, owner in self._open.items() if owner != producer_id), None)

    def place_of(self, first_offset: int) -> LogPosition | None:
        return self._places.get(first_offset)

    def begin(self, first_offset: int, producer_id: int, place: LogPosition | None = None) -> None:
        self._open[first_offset] = producer_id
        if place is not None:
            self._places[first_offset] = place

    def complete(self, first_offset: int, last_offset: int) -> None:
        self._open.pop(first_offset, None)
        self._completed[first_offset] = last_offset

    def replicated(self, high_watermark: int) -> None:
        """Markers below the high watermark are safe."""
        while self._completed:
            first_offset, last_offset = next(iter(self._completed.items()))
            if last_offset >= high_watermark:
                return
            del self._completed[first_offset]
            self._places.pop(first_offset, None)

    def ended_in_later_segment(self, first_offset: int, last_offset: int) -> None:
        """At most as many of these wait for a sync as transactions are open when a segment is rolled."""
        self._unsynced[first_offset] = last_offset

    def synced(self, recovery_point: int) -> None:
        """Markers below the recovery point are on disk."""
        if self._unsynced:
            self._unsynced = {first: last for first, last in self._unsynced.items() if last >= recovery_point}

    def first_unsynced(self, recovery_point: int) -> int | None:
        """Where the oldest transaction begins whose marker may be lost with the power."""
        return min((first for first, last in self._unsynced.items() if last >= recovery_point), default=None)

    @property
    def end_of_unsynced(self) -> int:
        """When all is on disk up to here, no such marker is left."""
        return max(self._unsynced.values(), default=-1) + 1

    def unsafe(self) -> tuple[dict[int, int], dict[int, int]]:
        """What has ended but may not be replicated, or not be on disk; for `keep_unsafe`."""
        return dict(self._completed), dict(self._unsynced)

    def keep_unsafe(self, before: tuple[dict[int, int], dict[int, int]], log_end_offset: int) -> None:
        """The log was read again from a snapshot, which has no transactions that had ended `before`."""
        self._completed = _kept(before[0], self._completed, log_end_offset)
        self._unsynced = _kept(before[1], self._unsynced, log_end_offset)

    def forget_places(self) -> None:
        """The files were truncated or replaced: forget positions in them."""
        self._places.clear()

    def clear(self) -> None:
        self._open.clear()
        self._completed.clear()
        self._places.clear()
        self._unsynced.clear()


def _kept(before: dict[int, int], now: dict[int, int], log_end_offset: int) -> dict[int, int]:
    """In the order of the markers."""
    kept = {first: last for first, last in before.items() if last < log_end_offset}
    return dict(sorted({**kept, **now}.items(), key=lambda row: row[1]))
