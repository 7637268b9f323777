"""Round-robin scheduling of expensive work: in steps, a few milliseconds in each pass of the loop.

Pending work is sorted by size: sizes take turns, and within a size the pieces of work. So a small request does not wait
for all large ones, and a hundred large requests of one client delay a small one no longer than a single large one.
The order of pieces is not kept: a caller that requires an order adds each piece after the previous one has completed.
"""

from collections import deque
from collections.abc import Iterator
from time import monotonic_ns

STEP_S = 0.005
"""The time for each kind of stepped work in one pass; at least one step is taken."""
STEP_NS = round(STEP_S * 1e9)
COSTLY_BYTES = 512
"""A smaller request is handled at once, as it names few elements."""


class Turns:
    """Pending work, done in steps."""

    def __init__(self) -> None:
        self._by_size: dict[int, deque[Iterator[None]]] = {}

    def __bool__(self) -> bool:
        """Whether work is pending, so that the next pass must follow at once."""
        return bool(self._by_size)

    def add(self, size: int, work: Iterator[None]) -> None:
        """`work` yields after each step; `size` is the size of its request."""
        self._by_size.setdefault(size.bit_length(), deque()).append(work)

    def work(self, budget_s: float = STEP_S) -> None:
        """Continue pending work."""
        end_ns = monotonic_ns() + int(budget_s * 1e9)
        while self._by_size:
            size, queue = next(iter(self._by_size.items()))
            # The size goes to the end of the queue before the step, which may add more work of the same size.
            del self._by_size[size]
            work = queue.popleft()
            if queue:
                self._by_size[size] = queue
            for _ in work:
                self._by_size.setdefault(size, deque()).append(work)
                break
            if monotonic_ns() >= end_ns:
                return
