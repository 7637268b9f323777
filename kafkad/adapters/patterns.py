"""Regular expressions of clients, with RE2, which matches any pattern in linear time (KIP-848).

Linear time may still be a millisecond for each of many thousands of names, so the total time of a pattern is limited
too. The library is loaded with the first pattern, because it takes 1.5 MB and few brokers get a pattern.
"""

from functools import cache
from importlib import import_module
from time import thread_time_ns
from typing import Any

MAX_PATTERN_LENGTH = 8192
"""Characters. RE2 may take half a second and 200 MB to compile a pattern of this length."""
INITIAL_TIME_NS = 20_000_000
"""Initial CPU time of each pattern, because some patterns are slow with their first texts only."""
_NS_PER_TEXT = 20_000
_NS_PER_CHARACTER = 20
"""Ten times the CPU time of usual patterns."""


class BoundedPattern:
    """`fullmatch` raises ValueError when the pattern has used more than its total CPU time."""

    __slots__ = ("_compiled", "_remaining_ns")

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._remaining_ns = INITIAL_TIME_NS

    def fullmatch(self, text: str, /) -> object | None:
        if self._remaining_ns < 0:
            raise ValueError("it takes too long to match")
        # CPU time, because with wall-clock time a busy machine could fail a cheap pattern.
        start_ns = thread_time_ns()
        match: object | None = self._compiled.fullmatch(text)
        self._remaining_ns += _NS_PER_TEXT + _NS_PER_CHARACTER * len(text) - (thread_time_ns() - start_ns)
        return match


def compile_pattern(pattern: str) -> BoundedPattern:
    """Raises ValueError with the error text of RE2."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"it has {len(pattern)} characters, at most {MAX_PATTERN_LENGTH} are allowed")
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
    # Only the whole match is needed, and capturing thousands of groups could take gigabytes. RE2 captures named groups
    # nevertheless.
    options.never_capture = True
    return re2, options
