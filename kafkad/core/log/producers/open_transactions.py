"""Which offset bounds read_committed? The transactions of a partition that are open, or whose markers are not
replicated yet.

A transaction is open from its first batch to its marker. It is unreplicated until the high watermark has passed the
marker: before that, a new leader might not know how it ended. The oldest of both kinds bounds what read_committed
sees.
"""

from kafkad.core.types import LogPosition

_NEVER = 2**63

class OpenTransactions:
    """Keyed by first offset. Offsets only grow, so both dicts are in the order of their offsets:
    `_open` of first offsets, `_completed` of the markers'."""

    __slots__ = ("_completed", "_open", "_places")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """First offset → producer id."""
        self._completed: dict[int, int] = {}
        """First offset → offset of the marker, which may not be replicated yet."""
        self._places: dict[int, LogPosition] = {}
        """Positions of the first offsets of transactions that began since the log was loaded."""

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

    def unreplicated(self) -> dict[int, int]:
        """First offset → offset of the marker."""
        return dict(self._completed)

    def keep_unreplicated(self, before: dict[int, int], log_end_offset: int) -> None:
        """The log was read again from a snapshot, which has no transactions that had ended `before`."""
        kept = {first: last for first, last in before.items() if last < log_end_offset}
        self._completed = dict(sorted({**kept, **self._completed}.items(), key=lambda row: row[1]))

    def forget_places(self) -> None:
        """The files were truncated or replaced: forget positions in them."""
        self._places.clear()

    def clear(self) -> None:
        self._open.clear()
        self._completed.clear()
        self._places.clear()
