"""Regular expressions of clients, by RE2: no pattern can make a match take more than linear time (KIP-848).

The library is loaded with the first pattern: few brokers ever see one, and it is a megabyte and a half.
"""

from functools import cache
from importlib import import_module
from typing import Any


def compile_pattern(pattern: str) -> Any:
    """An object with `fullmatch(text)`. Raises ValueError with RE2's reason."""
    re2, options = _library()
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        (reason,) = error.args
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error


@cache
def _library() -> tuple[Any, Any]:
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False  # it would write to stderr what a client got wrong
    return re2, options
