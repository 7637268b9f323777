"""Expensive work is done in steps, a few milliseconds of it in each pass of the loop.

Waiting work is sorted by size: each size has its turn, and within a size each piece of work. So a small request does
not wait for all large ones, and a hundred large requests of one client delay a small one no longer than one does.
The order of pieces of work is not kept: a caller that needs it adds each piece when the one before is done.
"""

from collections import deque
from collections.abc import Iterator
from time import monotonic_ns

STEP_S = 0.005
"""The time per pass of the loop for each kind of work done in steps; at least one step is taken."""
STEP_NS = round(STEP_S * 1e9)
COSTLY_BYTES = 512
"""A request of at most so many bytes is answered at once: it names few elements."""


class Turns:
    """Waiting work, done in steps."""

    def __init__(self) -> None:
        self._by_size: dict[int, deque[Iterator[None]]] = {}

    def __bool__(self) -> bool:
        """Whether work waits, so that the next pass must follow at once."""
        return bool(self._by_size)

    def add(self, size: int, work: Iterator[None]) -> None:
        """`work` yields after each step; `size` is that of its request."""
        self._by_size.setdefault(size.bit_length(), deque()).append(work)

    def work(self, budget_s: float = STEP_S) -> None:
        """Go on with waiting work."""
        end_ns = monotonic_ns() + int(budget_s * 1e9)
        while self._by_size:
            size, queue = next(iter(self._by_size.items()))
            # Back to the end of the queue before the step, which may add more work of the same size.
            del self._by_size[size]
            work = queue.popleft()
            if queue:
                self._by_size[size] = queue
            for _ in work:
                self._by_size.setdefault(size, deque()).append(work)
                break
            if monotonic_ns() >= end_ns:
                return
