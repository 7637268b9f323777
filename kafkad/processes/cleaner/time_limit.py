"""Limits the time of a call into a plugin: an exception ends a call that blocks for seconds or computes for too long.

A signal handler raises the exception in the main thread, because threads cannot be ended. It does not interrupt C code;
then the supervisor kills the process a little later. `BoundedFilter` limits each call of a policy's filter.
"""

import signal
from collections.abc import Callable
from functools import partial
from time import monotonic, thread_time
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from kafkad.core.cleaning.record_filter import RecordFilter
    from kafkad.core.columns.arrays import Flags
    from kafkad.core.columns.records import RecordColumns

CHECK_INTERVAL_S = 0.5
WAITS_S = 3.0
"""The limit for a blocked call, from the first check on, without the time in which it waits for a CPU. The supervisor
waits for five seconds.
"""
WORKS_S = 20.0
"""The limit for a call that uses the CPU; the supervisor waits for thirty seconds."""
_MIN_WORK_SHARE = 0.01

Result = TypeVar("Result")


class CallTooLong(Exception):
    """The call was ended."""


class _Interruption(BaseException):
    """A plugin that catches all exceptions does not catch this one."""


class _Limit:
    """One call, which begins now."""

    def __init__(self) -> None:
        self.is_over = False
        self.reason = ""
        self._began_s = monotonic()
        self._first: tuple[float, float] | None = None
        """The result of `_time_and_work` at the first check: a shorter call costs nothing more."""

    def check(self, _number: int, _frame: FrameType | None) -> None:
        """The signal handler, called from time to time while the call runs."""
        if self.is_over:
            return
        time_s, work_s = _time_and_work()
        if self._first is None:
            self._first = time_s, work_s
        runnable_s, worked_s = time_s - self._first[0], work_s - self._first[1]
        passed_s = monotonic() - self._began_s
        if passed_s >= WORKS_S or (runnable_s >= WAITS_S and worked_s < runnable_s * _MIN_WORK_SHARE):
            # Once: nothing may be raised after the call.
            self.is_over = True
            self.reason = f"it did not return within {passed_s:.0f} s"
            raise _Interruption


def _time_and_work() -> tuple[float, float]:
    """(seconds in which this thread ran or was blocked, CPU seconds of this thread).

    On a busy machine a policy that computes gets little CPU, and must not count as blocked.
    """
    return monotonic() - starved_s(), thread_time()


def starved_s() -> float:
    """Seconds in which this thread has waited for a CPU (proc(5), schedstat); 0 if the kernel does not report it."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:
        return 0.0


def in_time(call: Callable[[], Result]) -> Result:
    """Called in the main thread. Raises `CallTooLong`, and exceptions of `call`."""
    limit = _Limit()
    handler = signal.signal(signal.SIGALRM, limit.check)
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


class BoundedFilter:
    """A `RecordFilter` around another. Raises `CallTooLong`."""

    def __init__(self, record_filter: "RecordFilter") -> None:
        self._filter = record_filter

    @property
    def utilization(self) -> float:
        return self._filter.utilization

    def learn(self, records: "RecordColumns", first_offset: int) -> int:
        return in_time(partial(self._filter.learn, records, first_offset))

    def retains(self, records: "RecordColumns", end_offset: int, now_ms: int) -> "Flags":
        return in_time(partial(self._filter.retains, records, end_offset, now_ms))
