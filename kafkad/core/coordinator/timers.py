"""The timers of all shards of a process: one timing wheel, with separate keys for each shard.

Setting, moving and cancelling a timer cost the same for any number of timers: every heartbeat moves one.
"""

from collections import deque
from collections.abc import Callable, Hashable

from kafkad.core.coordinator.shard import Moment
from kafkad.core.waiting.timing_wheel import Timer, TimingWheel


class ShardTimer(Timer):
    """A timer of one shard. Plain and mutable, because the wheel moves it: see `Timer`."""

    __slots__ = ("key", "owner")

    def __init__(self, owner: "ShardTimers", key: Hashable, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.owner = owner
        self.key = key


class ShardTimers:
    """The timers of one shard, one for each key. `expired` is called with a timer that is due."""

    def __init__(self, wheel: "TimingWheel[ShardTimer]", expired: Callable[[ShardTimer, Moment], None]) -> None:
        self._wheel = wheel
        self.expired = expired
        self._timers: dict[Hashable, ShardTimer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def deadline_of(self, key: Hashable) -> int | None:
        timer = self._timers.get(key)
        return None if timer is None else timer.deadline_ms

    def set(self, key: Hashable, deadline_ms: int | None) -> None:
        """Set or move the timer of `key`; None cancels it."""
        timer = self._timers.get(key)
        if deadline_ms is None:
            if timer is not None:
                del self._timers[key]
                self._wheel.cancel(timer)
            return
        if timer is None:
            timer = self._timers[key] = ShardTimer(self, key, deadline_ms)
        else:
            self._wheel.cancel(timer)
            timer.deadline_ms = deadline_ms
        self._wheel.add(timer)

    def take(self, timer: ShardTimer) -> bool:
        """`timer` is due: remove it. False if it was cancelled or moved since the wheel returned it."""
        if self._timers.get(timer.key) is not timer or timer.bucket is not None:
            return False
        del self._timers[timer.key]
        return True

    def clear(self) -> None:
        timers, self._timers = self._timers, {}
        for timer in timers.values():
            self._wheel.cancel(timer)


class DueTimers:
    """Timers that are due and not performed yet: ten thousand sessions may expire at the same time."""

    def __init__(self, wheel: TimingWheel[ShardTimer]) -> None:
        self._wheel = wheel
        self._due: deque[ShardTimer] = deque()

    def __len__(self) -> int:
        return len(self._due)

    def run(self, moment: Moment, may_continue: Callable[[], bool] = lambda: True) -> None:
        """Call the shard of each due timer, in the order of the deadlines, while `may_continue` returns True.

        A shard skips a timer that was cancelled or moved in the meantime.
        """
        self._due.extend(self._wheel.advance(moment.monotonic_ms))
        while self._due:
            timer = self._due.popleft()
            timer.owner.expired(timer, moment)
            if not may_continue():
                return
