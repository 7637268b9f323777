"""Which error codes has this process put into responses since they were last counted? (ErrorsPerSec, for every API)

The one state of this folder, and the process's own: whatever packs a response does not know in which process that
is, and passing a counter through every handler for this alone would cost each of them a parameter. The event loop
counts what is here before it sleeps. Produce and Fetch, which are told apart by partition anyway, count themselves.
"""

from collections import Counter
from collections.abc import Iterable

codes: Counter[int] = Counter()
"""Only errors, never 0."""


def count_error(code: int) -> None:
    """`code` goes out in a response."""
    if code:
        codes[code] += 1


def count_errors(told: Iterable[int]) -> None:
    for code in told:
        if code:
            codes[code] += 1


def take() -> list[tuple[int, int]]:
    """(code, how often) since the last call."""
    taken = list(codes.items())
    codes.clear()
    return taken
