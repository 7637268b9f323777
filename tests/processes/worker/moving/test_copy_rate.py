"""What was copied is paid back with time, whoever copied it and whatever the rate was before."""

from kafkad.processes.worker.moving.copy_rate import RATE_CHECK_MS, CopyRate

NOW = 50_000


def test_nothing_waits_before_something_was_copied() -> None:
    assert CopyRate().due_ms(100, NOW) <= NOW


def test_the_next_piece_waits_until_the_last_ones_are_paid_back() -> None:
    rate = CopyRate()
    rate.copied(30, 100, NOW)
    rate.copied(30, 100, NOW + 100)
    assert rate.due_ms(100, NOW + 100) == NOW + 600


def test_time_in_which_nothing_was_copied_is_not_saved() -> None:
    rate = CopyRate()
    rate.copied(30, 100, NOW)
    rate.copied(50, 100, NOW + 60_000)
    assert rate.due_ms(100, NOW + 60_000) == NOW + 60_500


def test_a_changed_rate_counts_at_once() -> None:
    rate = CopyRate()
    rate.copied(300, 1000, NOW)
    assert rate.due_ms(2000, NOW) == NOW + 150


def test_who_waits_long_or_without_end_looks_again() -> None:
    rate = CopyRate()
    rate.copied(10**9, 1, NOW)
    assert rate.due_ms(1, NOW) == NOW + RATE_CHECK_MS
    assert rate.due_ms(0, NOW) == NOW + RATE_CHECK_MS
