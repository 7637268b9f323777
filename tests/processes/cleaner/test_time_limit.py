"""Calls that wait for ever, work for ever or end at the last moment."""

import signal
import threading
import time

import pytest

from kafkad.processes.cleaner import time_limit
from kafkad.processes.cleaner.time_limit import CallTooLong, in_time


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "LOOK_S", 0.02)
    monkeypatch.setattr(time_limit, "WAITS_S", 0.1)
    monkeypatch.setattr(time_limit, "WORKS_S", 0.3)


def wait() -> None:
    threading.Event().wait()


def work() -> None:
    while True:
        try:
            sum(range(1000))
        except Exception:  # noqa: BLE001  as plugins do
            continue


def works_on(until_s: float) -> str:
    while time.monotonic() < until_s:
        sum(range(1000))
    return "done"


def test_a_call_that_returns_is_what_it_would_be_otherwise() -> None:
    assert in_time(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        in_time(lambda: 1 // 0)


@pytest.mark.parametrize("call", [wait, work])
def test_a_call_that_does_not_return_is_ended(call: object) -> None:
    assert callable(call)
    with pytest.raises(CallTooLong, match="had not returned after"):
        in_time(call)


def test_a_call_that_works_may_take_longer_than_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "WORKS_S", 60.0)
    end_s = time.monotonic() + 0.4
    assert in_time(lambda: works_on(end_s)) == "done"


def test_nothing_is_raised_when_the_call_is_over() -> None:
    before = signal.getsignal(signal.SIGALRM)
    for _ in range(200):
        in_time(lambda: None)
    assert signal.getsignal(signal.SIGALRM) is before
    works_on(time.monotonic() + 0.4)


def test_another_timer_of_the_process_goes_on() -> None:
    before = signal.setitimer(signal.ITIMER_REAL, 1000, 7)
    try:
        in_time(lambda: None)
        delay, interval = signal.getitimer(signal.ITIMER_REAL)
        assert (round(delay, -1), interval) == (1000, 7)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
