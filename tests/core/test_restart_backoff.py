"""When a dead process is started again, under a clock that is an argument."""

from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.restart_backoff import (
    LONGEST_DELAY_MS,
    SETTLED_AFTER_MS,
    WINDOW_MS,
    CrashLoop,
    Restart,
    RestartBackoff,
)


def delays_of_failures(backoff: RestartBackoff, count: int) -> list[int]:
    """Each life fails at the moment at which it was started."""
    now, delays = 1_000_000, []
    for _ in range(count):
        decision = backoff.died(now)
        assert isinstance(decision, Restart)
        delays.append(decision.at_ms - now)
        now = decision.at_ms
    return delays


def test_first_restart_is_immediate_and_later_ones_wait_longer() -> None:
    assert delays_of_failures(RestartBackoff(), 8) == [0, 100, 200, 400, 800, 1600, 3200, 6400]


def test_no_restart_waits_longer_than_ten_seconds() -> None:
    assert delays_of_failures(RestartBackoff(failures_allowed=100), 40)[-1] == LONGEST_DELAY_MS


def test_too_many_failures_within_a_minute_are_a_crash_loop() -> None:
    backoff = RestartBackoff(failures_allowed=3)
    delays_of_failures(backoff, 3)
    assert backoff.died(1_001_000) == CrashLoop(failures=4)


def test_failures_of_long_ago_are_forgotten() -> None:
    backoff = RestartBackoff(failures_allowed=1)
    assert backoff.died(0) == Restart(at_ms=0)
    assert isinstance(backoff.died(WINDOW_MS + 1), Restart)


def test_settled_life_that_is_killed_is_replaced_at_once_however_often() -> None:
    backoff = RestartBackoff(failures_allowed=1)
    for life in range(200):
        started = life * SETTLED_AFTER_MS
        backoff.ready(started)
        died = started + SETTLED_AFTER_MS
        assert backoff.died(died) == Restart(at_ms=died)


def test_life_that_dies_right_after_it_was_ready_has_failed() -> None:
    backoff = RestartBackoff(failures_allowed=0)
    backoff.ready(0)
    assert backoff.died(SETTLED_AFTER_MS - 1) == CrashLoop(failures=1)


def test_ready_of_one_life_says_nothing_about_the_next() -> None:
    backoff = RestartBackoff(failures_allowed=0)
    backoff.ready(0)
    assert isinstance(backoff.died(SETTLED_AFTER_MS), Restart)
    assert isinstance(backoff.died(3 * SETTLED_AFTER_MS), CrashLoop)


@given(st.lists(st.integers(0, 5000), max_size=100))
def test_restart_is_never_in_the_past_nor_far_off(gaps: list[int]) -> None:
    backoff, now = RestartBackoff(), 0
    for gap in gaps:
        now += gap
        decision = backoff.died(now)
        assert isinstance(decision, CrashLoop) or now <= decision.at_ms <= now + LONGEST_DELAY_MS
