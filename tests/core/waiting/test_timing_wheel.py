"""The timing wheel on a virtual clock: worked examples, and any sequence against a sorted list."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkad.core.waiting.timing_wheel import Timer, TimingWheel
from tests.amounts import amount


def wheel_with(*deadlines_ms: int, start_ms: int = 0) -> TimingWheel[Timer]:
    wheel: TimingWheel[Timer] = TimingWheel(start_ms=start_ms)
    for deadline_ms in deadlines_ms:
        wheel.add(Timer(deadline_ms))
    return wheel


def wakings_until_empty(wheel: TimingWheel[Timer]) -> list[int]:
    """Sleep exactly as long as the wheel says, until nothing waits any more."""
    times = []
    while (wake_ms := wheel.next_expiration_ms()) is not None:
        times.append(wake_ms)
        wheel.advance(wake_ms)
    return times


def test_a_timer_comes_out_at_its_deadline_and_not_before() -> None:
    wheel = wheel_with(7)
    assert wheel.advance(6) == []
    assert [timer.deadline_ms for timer in wheel.advance(7)] == [7]
    assert len(wheel) == 0


def test_350_ms_wait_in_the_second_level_then_go_down_to_the_first() -> None:
    # Level 2 has 20 ms ticks: slot 17 starts at 340, then 10 ms are left for level 1.
    assert wakings_until_empty(wheel_with(350)) == [340, 350]


def test_450_ms_go_through_three_levels() -> None:
    assert wakings_until_empty(wheel_with(450)) == [400, 440, 450]


def test_timers_come_out_in_the_order_of_their_deadlines_after_a_long_sleep() -> None:
    wheel = wheel_with(9000, 3, 450, 21, 350, 22)
    assert [timer.deadline_ms for timer in wheel.advance(20_000)] == [3, 21, 22, 350, 450, 9000]


def test_a_deadline_that_has_passed_is_due_at_the_next_advance() -> None:
    wheel = wheel_with(90, start_ms=100)
    assert wheel.next_expiration_ms() == 100
    assert [timer.deadline_ms for timer in wheel.advance(100)] == [90]


def test_cancelled_timers_are_nothing_to_wake_up_for() -> None:
    wheel = wheel_with(5000)
    timer = Timer(10)
    wheel.add(timer)
    assert wheel.cancel(timer)
    assert wheel.next_expiration_ms() == 4800
    assert not wheel.cancel(timer)
    assert wheel.advance(4999) == []
    assert len(wheel) == 1


def test_an_expired_timer_cannot_be_cancelled_and_can_be_added_again() -> None:
    wheel: TimingWheel[Timer] = TimingWheel(start_ms=0)
    timer = Timer(4)
    wheel.add(timer)
    assert wheel.advance(4) == [timer]
    assert not wheel.cancel(timer)
    timer.deadline_ms = 8
    wheel.add(timer)
    assert wheel.advance(8) == [timer]


def test_a_clock_that_goes_back_moves_nothing() -> None:
    wheel = wheel_with(50, start_ms=40)
    assert wheel.advance(45) == []
    assert wheel.advance(10) == []
    assert wheel.next_expiration_ms() == 50


def test_clear_hands_back_all_that_waits() -> None:
    wheel = wheel_with(500, 5, 70_000)
    assert [timer.deadline_ms for timer in wheel.clear()] == [5, 500, 70_000]
    assert len(wheel) == 0
    assert wheel.next_expiration_ms() is None


@pytest.mark.parametrize("start_ms", [0, 19, 8_000, 1_234_567])
def test_the_clock_may_start_anywhere(start_ms: int) -> None:
    wheel = wheel_with(*(start_ms + delay for delay in (1, 19, 20, 21, 399, 400, 8_000)), start_ms=start_ms)
    assert [timer.deadline_ms - start_ms for timer in wheel.advance(start_ms + 8_000)] == [
        1, 19, 20, 21, 399, 400, 8_000,
    ]  # fmt: skip


class WheelAgainstList(RuleBasedStateMachine):
    """Whatever is added, cancelled and slept, the wheel hands out what a plain list would."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_003
        self.wheel: TimingWheel[Timer] = TimingWheel(start_ms=self.now_ms, wheel_size=4)
        self.waiting: list[Timer] = []

    @rule(delay_ms=st.integers(-5, 2_000))
    def add(self, delay_ms: int) -> None:
        timer = Timer(self.now_ms + delay_ms)
        self.wheel.add(timer)
        self.waiting.append(timer)

    @rule(choice=st.integers(0, 1_000))
    def cancel(self, choice: int) -> None:
        if self.waiting:
            assert self.wheel.cancel(self.waiting.pop(choice % len(self.waiting)))

    @rule(step_ms=st.one_of(st.integers(0, 20), st.integers(0, 3_000)))
    def advance(self, step_ms: int) -> None:
        self.now_ms += step_ms
        expired = self.wheel.advance(self.now_ms)
        due = [timer for timer in self.waiting if timer.deadline_ms <= self.now_ms]
        self.waiting = [timer for timer in self.waiting if timer.deadline_ms > self.now_ms]
        assert [timer.deadline_ms for timer in expired] == sorted(timer.deadline_ms for timer in due)
        assert set(expired) == set(due)

    @rule()
    def sleep_as_told(self) -> None:
        wake_ms = self.wheel.next_expiration_ms()
        if wake_ms is not None:
            self.advance(max(0, wake_ms - self.now_ms))

    @invariant()
    def nobody_oversleeps(self) -> None:
        wake_ms = self.wheel.next_expiration_ms()
        assert len(self.wheel) == len(self.waiting)
        if not self.waiting:
            assert wake_ms is None
        else:
            assert wake_ms is not None
            assert wake_ms <= max(self.now_ms, min(timer.deadline_ms for timer in self.waiting))


WheelAgainstList.TestCase.settings = settings(max_examples=amount("state_machine_examples"), stateful_step_count=40)
TestWheelAgainstList = WheelAgainstList.TestCase
