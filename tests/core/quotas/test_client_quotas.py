"""Throttle times as Kafka computes them, per client, summed over the processes of a broker."""

import pytest

from kafkad.core.quotas.client_quotas import IDLE_EXPIRY_MS, MAX_THROTTLE_MS, ClientQuotas, throttle_ms

ANNA, BERT = (None, "anna"), (None, "bert")


def quotas(default: float | None = None, **limits: float) -> ClientQuotas:
    limited = ClientQuotas()
    limited.set_limits(default, {(None, client_id): limit for client_id, limit in limits.items()})
    return limited


def test_without_limits_nothing_is_counted() -> None:
    unlimited = quotas()
    assert unlimited.is_unlimited
    assert unlimited.record(ANNA, 10**12, 0) == 0
    assert len(unlimited) == 0


def test_within_the_quota_nobody_waits() -> None:
    limited = quotas(1_000)
    assert not limited.is_unlimited
    assert [limited.record(ANNA, 900, second * 1_000) for second in range(30)] == [0] * 30


def test_above_the_quota_the_wait_brings_the_rate_back() -> None:
    # 15,000 bytes in 10 s is 1,500/s; they are 1,000/s after 5 more seconds.
    assert quotas(1_000).record(ANNA, 15_000, 0) == 5_000


def test_after_the_wait_the_client_is_within_its_quota() -> None:
    limited = quotas(1_000)
    wait_ms = limited.record(ANNA, 15_000, 0)
    assert limited.record(ANNA, 0, wait_ms - 1_000) > 0
    assert limited.record(ANNA, 0, 10_000 + wait_ms) == 0


def test_each_client_has_the_default_by_itself() -> None:
    limited = quotas(1_000)
    assert limited.record(ANNA, 10_000, 0) == 0
    assert limited.record(BERT, 10_000, 0) == 0
    assert limited.record(BERT, 1_000, 0) > 0


def test_a_named_limit_wins_over_the_default() -> None:
    limited = quotas(1_000, anna=10)
    assert limited.record(ANNA, 1_000, 0) > 0
    assert limited.record(BERT, 1_000, 0) == 0


def test_a_limit_for_one_client_leaves_the_others_alone() -> None:
    limited = quotas(anna=10)
    assert not limited.is_unlimited
    assert limited.record(BERT, 10**9, 0) == 0
    assert limited.max_in_window(BERT) is None


def test_bytes_taken_back_do_not_throttle() -> None:
    limited = quotas(1_000)
    assert limited.record(ANNA, 20_000, 0) > 0
    limited.unrecord(ANNA, 20_000, 0)
    assert limited.record(ANNA, 10_000, 0) == 0
    assert limited.drain_local() == {ANNA: 10_000}


def test_processes_that_tell_each_other_judge_by_the_sum() -> None:
    here, there = quotas(1_000), quotas(1_000)
    assert here.record(ANNA, 8_000, 0) == 0
    for key, amount in here.drain_local().items():
        there.record_remote(key, amount, 0)
    assert there.record(ANNA, 7_000, 0) == 5_000
    assert there.drain_local() == {ANNA: 7_000}
    assert here.drain_local() == {}


def test_new_limits_apply_to_what_was_counted_before() -> None:
    limited = quotas(1_000)
    assert limited.record(ANNA, 9_000, 0) == 0
    limited.set_limits(500, {})
    assert limited.record(ANNA, 0, 0) == 8_000


def test_one_answer_may_be_as_large_as_the_windows_allow() -> None:
    limited = quotas(1_000)
    largest = limited.max_in_window(ANNA)
    assert largest == 10_000
    assert limited.record(ANNA, largest, 0) == 0
    assert quotas(1_000).record(ANNA, largest + 1, 0) > 0


def test_clients_silent_for_an_hour_are_forgotten() -> None:
    limited = quotas(1_000)
    limited.record(ANNA, 1, 0)
    limited.record(BERT, 1, IDLE_EXPIRY_MS // 2)
    limited.record(BERT, 1, IDLE_EXPIRY_MS)
    assert len(limited) == 1


@pytest.mark.parametrize(
    ("total", "window_ms", "limit", "expected"),
    [(1_000, 1_000, 1_000, 0), (1_001, 1_000, 1_000, 1), (10**15, 10_000, 1, MAX_THROTTLE_MS)],
)
def test_throttle_time_formula(total: int, window_ms: int, limit: float, expected: int) -> None:
    assert throttle_ms(total, window_ms, limit) == expected
