"""The sampled rate against Kafka's rules: length of the windows, samples that grow old, bytes taken back."""

from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.quotas.rate import SampledRate


def rate(num_samples: int = 11, window_ms: int = 1_000, now_ms: int = 0) -> SampledRate:
    return SampledRate(num_samples=num_samples, window_ms=window_ms, now_ms=now_ms)


def test_a_first_burst_is_spread_over_all_windows_but_the_last() -> None:
    sampled = rate()
    sampled.record(1_000, 0)
    assert sampled.measure(0) == (1_000, 10_000)


def test_the_window_grows_with_the_time_observed() -> None:
    sampled = rate(num_samples=3)
    sampled.record(10, 0)
    sampled.record(10, 2_500)
    assert sampled.measure(2_500) == (20, 2_500)


def test_what_is_older_than_all_windows_is_forgotten() -> None:
    sampled = rate(num_samples=2)
    sampled.record(10, 0)
    sampled.record(5, 1_500)
    assert sampled.measure(1_999) == (15, 1_999)
    assert sampled.measure(2_000) == (5, 1_500)


def test_silence_brings_the_rate_to_nothing() -> None:
    sampled = rate()
    sampled.record(1_000_000, 0)
    assert sampled.measure(60_000)[0] == 0


def test_taking_back_restores_the_rate() -> None:
    sampled = rate()
    sampled.record(100, 0)
    sampled.record(900, 10)
    sampled.record(-900, 10)
    assert sampled.measure(10) == (100, 10_010)


def test_a_single_sample_of_no_age_is_one_millisecond_long() -> None:
    sampled = rate(num_samples=1)
    sampled.record(7, 0)
    assert sampled.measure(0) == (7, 1)


@given(
    steps=st.lists(st.tuples(st.integers(0, 700), st.integers(-50, 1_000), st.booleans()), max_size=60),
)
def test_looking_does_not_change_what_is_seen(steps: list[tuple[int, int, bool]]) -> None:
    # One rate is measured after each record, the other only now and then: a cached sum must not show.
    often, seldom = rate(num_samples=3, window_ms=100), rate(num_samples=3, window_ms=100)
    now_ms = 0
    for step_ms, amount, look in steps:
        now_ms += step_ms
        often.record(amount, now_ms)
        seldom.record(amount, now_ms)
        seen = often.measure(now_ms)[0]
        if look:
            assert seldom.measure(now_ms)[0] == seen


@given(
    steps=st.lists(st.tuples(st.integers(0, 1_500), st.integers(0, 1_000)), max_size=60),
    num_samples=st.integers(1, 5),
)
def test_everything_in_the_observed_windows_is_counted(steps: list[tuple[int, int]], num_samples: int) -> None:
    sampled = rate(num_samples=num_samples, window_ms=100)
    now_ms = 0
    events = []
    for step_ms, amount in steps:
        now_ms += step_ms
        sampled.record(amount, now_ms)
        events.append((now_ms, amount))
    total, window_ms = sampled.measure(now_ms)
    observed_ms = num_samples * 100
    recent = sum(amount for at_ms, amount in events if at_ms > now_ms - observed_ms)
    reachable = sum(amount for at_ms, amount in events if at_ms > now_ms - observed_ms - 100)
    assert recent <= total <= reachable
    assert max(1, (num_samples - 1) * 100) <= window_ms <= observed_ms + 100
