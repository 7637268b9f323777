"""Work that costs much for one client is done in steps, a few milliseconds of it in each pass of the loop.

What is in line is sorted by size: each size has its turn, and of each size each piece of work. So nobody with a
little waits for everybody with much, and who sends a hundred large requests holds up others who do no longer than
with one. Order among pieces of work is nobody's promise here: whoever needs one adds the next when one is done.
"""

from collections import deque
from collections.abc import Iterator
from time import monotonic_ns

STEP_S = 0.005
"""How long a pass of the loop goes on with work that is done in steps, of each kind; one step is taken at least."""
COSTLY_BYTES = 512
"""A request up to this size is answered at once: its elements are few."""


class Turns:
    """Steps of work, in line."""

    def __init__(self) -> None:
        self._by_size: dict[int, deque[Iterator[None]]] = {}

    def __bool__(self) -> bool:
        """Whether there is work, so that the next pass has to come at once."""
        return bool(self._by_size)

    def add(self, size: int, work: Iterator[None]) -> None:
        """`work` is gone through step by step; `size` is that of what it is about."""
        self._by_size.setdefault(size.bit_length(), deque()).append(work)

    def work(self, budget_s: float = STEP_S) -> None:
        """Go on with what is in line."""
        end_ns = monotonic_ns() + int(budget_s * 1e9)
        while self._by_size:
            size, line = next(iter(self._by_size.items()))
            # To the end of the line it goes, before the step: that may add more work of the same size.
            del self._by_size[size]
            work = line.popleft()
            if line:
                self._by_size[size] = line
            for _ in work:
                self._by_size.setdefault(size, deque()).append(work)
                break
            if monotonic_ns() >= end_ns:
                return
