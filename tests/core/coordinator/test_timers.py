"""Timers of several shards that are due at once are carried out a few at a time."""

from itertools import count

from kafkad.core.coordinator.shard import Moment
from kafkad.core.coordinator.timers import DueTimers, ShardTimer, ShardTimers
from kafkad.core.waiting.timing_wheel import TimingWheel

NOW = Moment(10_000, 0)


class World:
    """`called` has the keys of the timers that ran."""

    def __init__(self) -> None:
        self.called: list[object] = []
        self.wheel: TimingWheel[ShardTimer] = TimingWheel(start_ms=0)
        self.timers = ShardTimers(self.wheel, self._expired)
        self.due = DueTimers(self.wheel)

    def _expired(self, timer: ShardTimer, moment: Moment) -> None:
        if self.timers.take(timer):
            self.called.append(timer.key)

    def run(self, at_a_time: int) -> list[object]:
        self.called = []
        calls = count(1)
        self.due.run(NOW, lambda: next(calls) < at_a_time)
        return self.called


def test_what_there_is_no_time_for_comes_first_the_next_time() -> None:
    world = World()
    for key in range(5):
        world.timers.set(key, 100 + key)
    assert world.run(at_a_time=2) == [0, 1]
    assert len(world.due) == 3
    world.timers.set("later", 50)
    assert world.run(at_a_time=3) == [2, 3, 4]
    assert world.run(at_a_time=3) == ["later"]
    assert len(world.due) == 0


def test_a_timer_that_is_moved_or_cancelled_while_it_waits_for_its_turn_does_not_run() -> None:
    world = World()
    for key in ("first", "moved", "cancelled", "anew"):
        world.timers.set(key, 100)
    assert world.run(at_a_time=1) == ["first"]
    world.timers.set("moved", 20_000)
    world.timers.set("cancelled", None)
    world.timers.set("anew", None)
    world.timers.set("anew", 20_000)
    assert world.run(at_a_time=9) == []
    assert world.timers.deadline_of("moved") == world.timers.deadline_of("anew") == 20_000
