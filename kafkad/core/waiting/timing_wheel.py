"""Kafka's hierarchical timing wheel: when is the next deadline, and which timers are due now?

The cost of adding and cancelling does not depend on the number of timers: each level has a ring of buckets, and one
tick of a level is the whole ring of the level below. Levels are created when a deadline first requires them. A heap of
the used buckets (not of the timers) gives the time to sleep, so empty ticks cost nothing. No timer expires too early.
"""

from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from mypy_extensions import mypyc_attr

TICK_MS = 1
WHEEL_SIZE = 20


@mypyc_attr(allow_interpreted_subclasses=True)
class Timer:
    """An object with a deadline, to be subclassed. A timer is in one wheel at a time.

    Mutable, without wrappers: the wheel moves tens of thousands of timers.
    """

    __slots__ = ("bucket", "deadline_ms")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.bucket: _Bucket[Any] | None = None


TimerType = TypeVar("TimerType", bound=Timer)


class _Bucket(Generic[TimerType]):
    """The timers of one slot of one ring; a dict keeps their order and removes any of them in constant time."""

    __slots__ = ("expiration_ms", "number", "timers")

    def __init__(self, number: int) -> None:
        self.number = number
        self.expiration_ms = -1
        self.timers: dict[TimerType, None] = {}


class _Level(Generic[TimerType]):
    """One ring: `clock_ms` is a multiple of `tick_ms`, and all earlier buckets are empty."""

    __slots__ = ("buckets", "clock_ms", "interval_ms", "tick_ms")

    def __init__(self, *, tick_ms: int, wheel_size: int, now_ms: int, first_number: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * wheel_size
        self.clock_ms = now_ms - now_ms % tick_ms
        self.buckets: list[_Bucket[TimerType]] = [_Bucket(first_number + slot) for slot in range(wheel_size)]


class TimingWheel(Generic[TimerType]):
    """The timers of one process, with a clock that the caller advances."""

    def __init__(self, *, start_ms: int, wheel_size: int = WHEEL_SIZE) -> None:
        self._size = wheel_size
        first: _Level[TimerType] = _Level(tick_ms=TICK_MS, wheel_size=wheel_size, now_ms=start_ms, first_number=0)
        self._levels = [first]
        # A bucket is in the heap exactly while its expiration_ms is not -1; its number breaks ties.
        self._heap: list[tuple[int, int, _Bucket[TimerType]]] = []
        self._overdue: _Bucket[TimerType] = _Bucket(-1)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, timer: TimerType) -> None:
        """Add `timer`; if its deadline has passed, the next `advance` returns it."""
        self._place(timer)
        self._count += 1

    def cancel(self, timer: TimerType) -> bool:
        """Remove `timer`; False if it is not in the wheel."""
        bucket = timer.bucket
        if bucket is None:
            return False
        del bucket.timers[timer]
        timer.bucket = None
        self._count -= 1
        return True

    def next_expiration_ms(self) -> int | None:
        """The time of the next work for `advance`, at most the earliest deadline; None without timers."""
        if self._overdue.timers:
            return self._levels[0].clock_ms
        heap = self._heap
        while heap:
            expiration_ms, _, bucket = heap[0]
            if bucket.timers:
                return expiration_ms
            heappop(heap)  # all timers of the bucket were cancelled
            bucket.expiration_ms = -1
        return None

    def advance(self, now_ms: int) -> list[TimerType]:
        """Advance the clock to `now_ms` and return the expired timers, earliest deadline first.

        Timers of a coarse bucket that are not expired move to a finer level. A clock that stands still or goes back
        has no effect.
        """
        moved = self._take_due_buckets(now_ms)
        if now_ms > self._levels[0].clock_ms:
            for level in self._levels:
                level.clock_ms = now_ms - now_ms % level.tick_ms
        due = []
        for timer in moved:
            if timer.deadline_ms <= now_ms:
                timer.bucket = None
                due.append(timer)
            else:
                self._place(timer)
        self._count -= len(due)
        due.sort(key=_deadline)
        return due

    def clear(self) -> list[TimerType]:
        """Remove and return all timers, in the order of their deadlines."""
        timers = self._take_due_buckets(None)
        for timer in timers:
            timer.bucket = None
        self._count = 0
        timers.sort(key=_deadline)
        return timers

    def _place(self, timer: TimerType) -> None:
        deadline_ms = timer.deadline_ms
        level = self._levels[0]
        if deadline_ms < level.clock_ms + level.tick_ms:
            bucket = self._overdue
        else:
            if deadline_ms >= level.clock_ms + level.interval_ms:
                level = self._level_for(deadline_ms)
            tick = deadline_ms // level.tick_ms
            bucket = level.buckets[tick % self._size]
            if bucket.expiration_ms < 0:
                bucket.expiration_ms = tick * level.tick_ms
                heappush(self._heap, (bucket.expiration_ms, bucket.number, bucket))
        bucket.timers[timer] = None
        timer.bucket = bucket

    def _level_for(self, deadline_ms: int) -> _Level[TimerType]:
        levels = self._levels
        for level in levels:
            if deadline_ms < level.clock_ms + level.interval_ms:
                return level
        while deadline_ms >= level.clock_ms + level.interval_ms:
            level = _Level(
                tick_ms=level.interval_ms,
                wheel_size=self._size,
                now_ms=level.clock_ms,
                first_number=len(levels) * self._size,
            )
            levels.append(level)
        return level

    def _take_due_buckets(self, now_ms: int | None) -> list[TimerType]:
        """Empty every bucket that starts at or before `now_ms` (None: every bucket)."""
        timers: list[TimerType] = []
        _empty(self._overdue, timers)
        heap = self._heap
        while heap and (now_ms is None or heap[0][0] <= now_ms):
            bucket = heappop(heap)[2]
            bucket.expiration_ms = -1
            _empty(bucket, timers)
        return timers


def _empty(bucket: _Bucket[TimerType], into: list[TimerType]) -> None:
    into.extend(bucket.timers)
    bucket.timers = {}


def _deadline(timer: Timer) -> int:
    return timer.deadline_ms
