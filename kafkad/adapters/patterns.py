"""Regular expressions of clients, by RE2: no pattern can make a match take more than linear time (KIP-848).

Linear may still mean a millisecond for each of many thousands of names, so the total time of a pattern is limited
too.

The library is loaded with the first pattern: few brokers ever get one, and it takes 1.5 MB.
"""

from functools import cache
from importlib import import_module
from time import thread_time_ns
from typing import Any

LONGEST_PATTERN = 8192
"""Letters. RE2 takes up to half a second and 200 MB to compile so many of the most costly kind."""
ALLOWANCE_NS = 20_000_000
"""CPU time that each pattern gets once, because some patterns are slow with their first texts only."""
_NS_FOR_A_TEXT = 20_000
_NS_FOR_A_LETTER = 20
"""Ten times what usual patterns need."""


class BoundedPattern:
    """`fullmatch` raises ValueError when the pattern has taken too long altogether."""

    __slots__ = ("_compiled", "_left_ns")

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._left_ns = ALLOWANCE_NS

    def fullmatch(self, text: str, /) -> object | None:
        if self._left_ns < 0:
            raise ValueError("it takes too long to match")
        # CPU time, because wall-clock time would condemn a good pattern on a busy machine.
        began_ns = thread_time_ns()
        found: object | None = self._compiled.fullmatch(text)
        self._left_ns += _NS_FOR_A_TEXT + _NS_FOR_A_LETTER * len(text) - (thread_time_ns() - began_ns)
        return found


def compile_pattern(pattern: str) -> BoundedPattern:
    """Raises ValueError with RE2's reason."""
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"it has {len(pattern)} letters, {LONGEST_PATTERN} are taken at most")
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
    options.log_errors = False  # RE2 would print the errors of clients to stderr
    # The places of thousands of groups would take gigabytes to find; here only the whole match counts. RE2 captures
    # groups with a name all the same.
    options.never_capture = True
    return re2, options
