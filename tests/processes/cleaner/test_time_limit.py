"""Calls that wait for ever, work for ever or end at the last moment."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafkad.processes.cleaner import time_limit
from kafkad.processes.cleaner.time_limit import CallTooLong, in_time, starved_s


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "CHECK_INTERVAL_S", 0.02)
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
    with pytest.raises(CallTooLong, match="did not return within"):
        in_time(call)


def test_a_call_that_works_may_take_longer_than_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "WORKS_S", 60.0)
    end_s = time.monotonic() + 0.4
    assert in_time(lambda: works_on(end_s)) == "done"


class BusyMachine:
    """Where this thread gets `share` of the time that it wants; `wants` is how much of all time that is."""

    def __init__(self, patch: pytest.MonkeyPatch, *, share: float, wants: float) -> None:
        self.now_s = 1000.0
        patch.setattr(time_limit, "monotonic", lambda: self.now_s)
        patch.setattr(time_limit, "thread_time", lambda: self.now_s * wants * share)
        patch.setattr(time_limit, "starved_s", lambda: self.now_s * wants * (1 - share))

    def seconds_until_ended(self, looks: list[float]) -> float | None:
        limit = time_limit._Limit()
        for after_s in looks:
            self.now_s = 1000.0 + after_s
            try:
                limit.check(signal.SIGALRM, None)
            except time_limit._Interruption:
                return after_s
        return None


@pytest.mark.parametrize(
    ("share", "wants", "ended_s"),
    [
        (0.001, 1.0, 0.3),  # the machine is busy with others: only the longer time ends it
        (0.001, 0.01, 0.13),  # it waits, and waits for a CPU at each look, too
        (1.0, 0.0, 0.12),  # it waits, and nobody else is there
        (1.0, 0.02, 0.3),  # it works a little
    ],
)
def test_a_call_that_gets_no_cpu_is_not_taken_for_one_that_waits(
    monkeypatch: pytest.MonkeyPatch, share: float, wants: float, ended_s: float
) -> None:
    """At load 40 the built-in policy was: its log was not compacted for a minute."""
    machine = BusyMachine(monkeypatch, share=share, wants=wants)
    looks = [at / 100 for at in range(2, 100)]
    assert machine.seconds_until_ended(looks) == pytest.approx(ended_s, abs=0.015)


def test_a_first_look_that_comes_late_blames_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of the time before it."""
    machine = BusyMachine(monkeypatch, share=0.001, wants=1.0)
    assert machine.seconds_until_ended([0.25, 0.29]) is None


@contextmanager
def shared_cpu() -> Iterator[None]:
    """This thread has one CPU, which another process uses as well."""
    cpus = os.sched_getaffinity(0)
    cpu = {min(cpus)}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            os.sched_setaffinity(other.pid, cpu)
            os.sched_setaffinity(0, cpu)
            yield
        finally:
            os.sched_setaffinity(0, cpus)
            other.kill()


def test_the_kernel_says_how_long_a_thread_has_waited_for_a_cpu() -> None:
    before, end_s = starved_s(), time.monotonic() + 60
    with shared_cpu():
        while starved_s() < before + 0.01:
            assert time.monotonic() < end_s, "it has always had its CPU"
    before, began_s = starved_s(), time.monotonic()
    threading.Event().wait(0.1)
    assert starved_s() - before < time.monotonic() - began_s - 0.05, "who sleeps wants none"


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
