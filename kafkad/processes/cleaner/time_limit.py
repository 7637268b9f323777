"""A call into a plugin ends: one that waits for seconds, or works for very many, is ended by an exception in it.

A signal brings it, as nobody can end a thread: the main thread gets it in the middle of what it does. What stays in C
code does not notice; then the supervisor kills the process, somewhat later than the call would have been ended here.
"""

import signal
from collections.abc import Callable
from time import monotonic, thread_time
from types import FrameType
from typing import TypeVar

CHECK_INTERVAL_S = 0.5
WAITS_S = 3.0
"""From the first look on, for a call that does nothing although there is a CPU for it. The supervisor waits for five
seconds.
"""
WORKS_S = 20.0
"""For one that uses the CPU, where the supervisor waits for thirty."""
_LEAST_WORK = 0.01

Result = TypeVar("Result")


class CallTooLong(Exception):
    """It was ended."""


class _Interruption(BaseException):
    """A plugin that catches all exceptions does not catch this one."""


class _Limit:
    """One call, which begins now."""

    def __init__(self) -> None:
        self.is_over = False
        self.reason = ""
        self._began_s = monotonic()
        self._first: tuple[float, float] | None = None
        """What `_time_and_work` has said at the first look: a call that is over by then costs nothing more."""

    def look(self, _number: int, _frame: FrameType | None) -> None:
        """From time to time while the call runs, and in the midst of it."""
        if self.is_over:
            return
        time_s, work_s = _time_and_work()
        if self._first is None:
            self._first = time_s, work_s
        had_s, worked_s = time_s - self._first[0], work_s - self._first[1]
        passed_s = monotonic() - self._began_s
        if passed_s >= WORKS_S or (had_s >= WAITS_S and worked_s < had_s * _LEAST_WORK):
            # Once: nothing may be raised when the call has ended after all.
            self.is_over = True
            self.reason = f"it had not returned after {passed_s:.0f} s"
            raise _Interruption


def _time_and_work() -> tuple[float, float]:
    """Seconds that went by while this thread had a CPU or wanted none, and those for which it had one.

    On a machine that is busy with others a policy that works hardly gets on: it would look like one that waits.
    """
    return monotonic() - starved_s(), thread_time()


def starved_s() -> float:
    """How long this thread has waited for a CPU so far (proc(5), schedstat); 0 where the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:
        return 0.0


def in_time(call: Callable[[], Result]) -> Result:
    """In the main thread. Raises `CallTooLong`, and what `call` raises."""
    limit = _Limit()
    handler = signal.signal(signal.SIGALRM, limit.look)
    timer = signal.setitimer(signal.ITIMER_REAL, CHECK_INTERVAL_S, CHECK_INTERVAL_S)
    try:
        try:
            return call()
        finally:
            limit.is_over = True
    except _Interruption:
        raise CallTooLong(limit.reason) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
