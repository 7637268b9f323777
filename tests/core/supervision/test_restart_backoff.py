"""When a dead process is started again; the clock is an argument."""

import random

import pytest

from kafkad.core.supervision.restart_backoff import (
    COMPENSATION_MS,
    CRASH_WINDOW_MS,
    FAILURES_ALLOWED,
    LONGEST_DELAY_MS,
    CrashLoop,
    Restart,
    RestartBackoff,
)
from tests.amounts import random_seeds, seeds_of_tests

AT_ONCE = 1_000


class Lives:
    """The lives of one process of a broker that serves, one after the other."""

    def __init__(self) -> None:
        self.backoff = RestartBackoff()
        self.now_ms = 1_000_000
        self.incarnations = 0

    def live(self, served_ms: int | None) -> Restart:
        """Serve for that long (None: die before), and die; then wait until the next incarnation begins."""
        if served_ms is not None:
            self.backoff.ready(self.now_ms)
            self.now_ms += served_ms
        decision = self.backoff.died(self.now_ms, has_served=True)
        assert isinstance(decision, Restart)
        self.incarnations += 1
        return decision

    def delay(self, served_ms: int | None) -> int:
        decision = self.live(served_ms)
        delay_ms = decision.at_ms - self.now_ms
        self.now_ms = decision.at_ms
        return delay_ms


def test_first_restart_is_immediate_and_later_ones_wait_longer() -> None:
    incarnations = Lives()
    assert [incarnations.delay(None) for _ in range(11)] == [
        0,
        100,
        200,
        400,
        800,
        1600,
        3200,
        6400,
        10_000,
        10_000,
        10_000,
    ]


def test_life_that_serves_for_two_seconds_each_time_waits_longer_as_well() -> None:
    incarnations = Lives()
    assert [incarnations.delay(2_000) for _ in range(9)] == [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000]


def test_process_that_is_killed_now_and_then_is_back_at_once_however_often() -> None:
    incarnations = Lives()
    assert {incarnations.delay(COMPENSATION_MS) for _ in range(200)} == {0}


def test_each_ten_seconds_of_service_make_up_for_one_death() -> None:
    incarnations = Lives()
    waited = [incarnations.delay(None) for _ in range(9)]
    assert waited[-1] == LONGEST_DELAY_MS
    assert incarnations.delay(3 * COMPENSATION_MS) == waited[-3]
    assert incarnations.delay(100 * COMPENSATION_MS) == 0


def test_ready_of_one_life_says_nothing_about_the_next() -> None:
    incarnations = Lives()
    incarnations.delay(COMPENSATION_MS)
    incarnations.now_ms += COMPENSATION_MS
    assert incarnations.delay(None) == 100


def test_how_often_it_died_within_ten_minutes_is_told() -> None:
    incarnations = Lives()
    assert [incarnations.live(1_000).recent_deaths for _ in range(4)] == [1, 2, 3, 4]
    assert incarnations.live(CRASH_WINDOW_MS).recent_deaths == 1


@pytest.mark.parametrize("allowed", [0, 3, FAILURES_ALLOWED])
def test_too_many_lives_that_end_before_the_broker_serves_are_a_crash_loop(allowed: int) -> None:
    backoff = RestartBackoff(failures_allowed=allowed)
    for _ in range(allowed):
        assert isinstance(backoff.died(0, has_served=False), Restart)
    assert backoff.died(10**9, has_served=False) == CrashLoop(failures=allowed + 1)


def test_no_number_of_deaths_ends_a_broker_that_has_served() -> None:
    backoff = RestartBackoff(failures_allowed=0)
    assert all(isinstance(backoff.died(now_ms, has_served=True), Restart) for now_ms in range(10_000))


def test_life_that_the_machine_has_no_room_for_is_tried_again_ever_less_often() -> None:
    backoff, now_ms, waited = RestartBackoff(), 0, []
    for _ in range(9):
        at_ms = backoff.not_begun(now_ms)
        waited.append(at_ms - now_ms)
        now_ms = at_ms
    assert waited == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
    died = backoff.died(now_ms, has_served=True)
    assert isinstance(died, Restart) and died.recent_deaths == 1, "what never lived has not died"


@pytest.mark.parametrize("seeds", seeds_of_tests("backoff_lives", AT_ONCE))
def test_whatever_happens_waits_are_bounded_and_dying_fast_never_becomes_a_hot_loop(seeds: range) -> None:
    for seed in seeds:
        chosen = random.Random(seed)
        incarnations, longest_life_ms = Lives(), chosen.choice([1, 500, 2_000, COMPENSATION_MS - 1])
        began_ms = incarnations.now_ms
        while incarnations.now_ms < began_ms + CRASH_WINDOW_MS:
            if chosen.random() < 0.1:
                incarnations.now_ms = incarnations.backoff.not_begun(incarnations.now_ms)
            decision = incarnations.live(chosen.choice([None, chosen.randrange(longest_life_ms)]))
            assert incarnations.now_ms <= decision.at_ms <= incarnations.now_ms + LONGEST_DELAY_MS, f"seed {seed}"
            assert 1 <= decision.recent_deaths <= incarnations.incarnations, f"seed {seed}"
            incarnations.now_ms = decision.at_ms
        # 8 lives in the first 12.7 s, then one each ten seconds.
        assert incarnations.incarnations <= 9 + CRASH_WINDOW_MS // LONGEST_DELAY_MS, f"seed {seed}"


def test_long_lives_keep_every_wait_short_whatever_came_before() -> None:
    for seed in random_seeds("backoff_lives"):
        chosen = random.Random(seed)
        incarnations = Lives()
        for _ in range(chosen.randrange(40)):
            incarnations.delay(chosen.choice([None, chosen.randrange(60_000)]))
        incarnations.delay(9 * COMPENSATION_MS + chosen.randrange(60_000))
        assert incarnations.delay(COMPENSATION_MS + chosen.randrange(60_000)) == 0, f"seed {seed}"
