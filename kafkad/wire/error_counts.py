"""Counts the error codes in this process's responses since the last `take` (metric ErrorsPerSec, for all APIs).

This is the only state of this folder, one per process: a counter object would be a parameter of every handler. The
event loop takes the counts before it sleeps. Produce and Fetch count their errors themselves.
"""

from collections import Counter
from collections.abc import Iterable

codes: Counter[int] = Counter()
"""The number of occurrences of each error code; code 0 is not counted."""


def count_error(code: int) -> None:
    """Count the error `code` of a response."""
    if code:
        codes[code] += 1


def count_errors(sent: Iterable[int]) -> None:
    for code in sent:
        if code:
            codes[code] += 1


def take() -> list[tuple[int, int]]:
    """(code, count) since the last call."""
    taken = list(codes.items())
    codes.clear()
    return taken
