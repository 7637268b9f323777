"""Regular expressions of clients, by RE2: no pattern can make a match take more than linear time (KIP-848).

Linear still allows for a millisecond for each name, and there may be many thousands: a pattern has some microseconds
for a text, and none more when it has used them up.

The library is loaded with the first pattern: few brokers ever see one, and it is a megabyte and a half.
"""

from functools import cache
from importlib import import_module
from time import thread_time_ns
from typing import Any

ALLOWANCE_NS = 20_000_000
"""Of the processor's time, whatever is matched: some patterns are slow with their first texts only."""
_NS_FOR_A_TEXT = 20_000
_NS_FOR_A_LETTER = 20
"""Ten times what patterns need that people write."""


class BoundedPattern:
    """`fullmatch` raises ValueError when the pattern has taken too long altogether."""

    __slots__ = ("_compiled", "_left_ns")

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._left_ns = ALLOWANCE_NS

    def fullmatch(self, text: str, /) -> object | None:
        if self._left_ns < 0:
            raise ValueError("it takes too long to match")
        # Not the clock's time: on a busy machine a good pattern would be taken for a bad one.
        began_ns = thread_time_ns()
        found: object | None = self._compiled.fullmatch(text)
        self._left_ns += _NS_FOR_A_TEXT + _NS_FOR_A_LETTER * len(text) - (thread_time_ns() - began_ns)
        return found


def compile_pattern(pattern: str) -> BoundedPattern:
    """Raises ValueError with RE2's reason."""
    re2, options = _library()
    try:
        return BoundedPattern(re2.compile(pattern, options))
    except re2.error as error:
        (reason,) = error.args
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error


@cache
def _library() -> tuple[Any, Any]:
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False  # it would write to stderr what a client got wrong
    return re2, options
