"""Which error codes has this process put into responses since they were last counted? (ErrorsPerSec, for every API)

This is the only state of this folder; each process has its own. Code that packs a response does not know which process
it runs in, and a counter passed through every handler would cost each of them a parameter. The event loop takes these
counts before it sleeps. Produce and Fetch know the error of each partition anyway and count by themselves.
"""

from collections import Counter
from collections.abc import Iterable

codes: Counter[int] = Counter()
"""How often each error code was sent; code 0 is never counted."""


def count_error(code: int) -> None:
    """Count `code`, which a response carries."""
    if code:
        codes[code] += 1


def count_errors(sent: Iterable[int]) -> None:
    for code in sent:
        if code:
            codes[code] += 1


def take() -> list[tuple[int, int]]:
    """(code, how often) since the last call."""
    taken = list(codes.items())
    codes.clear()
    return taken
