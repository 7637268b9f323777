"""A call into a plugin ends: one that waits for seconds, or works for very many, is ended by an exception in it.

A signal brings it, as nobody can end a thread: the main thread gets it in the middle of what it does. What stays in C
code does not notice; then the supervisor kills the process, somewhat later than the call would have been ended here.
"""

import signal
from collections.abc import Callable
from time import monotonic, thread_time
from types import FrameType
from typing import TypeVar

LOOK_S = 1.0
WAITS_S = 3.0
"""For a call that does nothing. The supervisor waits for five seconds."""
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
        self._began_s, self._cpu_s = monotonic(), thread_time()

    def look(self, _number: int, _frame: FrameType | None) -> None:
        """From time to time while the call runs, and in the midst of it."""
        if self.is_over:
            return
        passed_s, worked_s = monotonic() - self._began_s, thread_time() - self._cpu_s
        if passed_s >= WORKS_S or (passed_s >= WAITS_S and worked_s < passed_s * _LEAST_WORK):
            # Once: nothing may be raised when the call has ended after all.
            self.is_over = True
            self.reason = f"it had not returned after {passed_s:.0f} s"
            raise _Interruption


def in_time(call: Callable[[], Result]) -> Result:
    """In the main thread. Raises `CallTooLong`, and what `call` raises."""
    limit = _Limit()
    handler = signal.signal(signal.SIGALRM, limit.look)
    timer = signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
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
