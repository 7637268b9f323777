"""Limits how many large requests are processed at once; the others wait in queues.

A decoded request takes several times its size, so a crowd of them is not processed at once. Each size (a power of two)
has its own queue, so that small requests do not wait for large ones.
"""

from collections import deque
from typing import Generic, TypeVar

MOST_BYTES = 2 << 20
"""Limit for the requests of one size class that are processed at once; one of them always is."""
T = TypeVar("T")


class SizeClasses(Generic[T]):
    """Requests that are processed or wait for it. `held_bytes` is the size of all of them."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._in_work: dict[int, int] = {}
        """Bytes, by size class."""
        self._queues: dict[int, deque[tuple[int, T]]] = {}
        self.held_bytes = 0

    def begin(self, size: int, who: T) -> bool:
        """Whether processing may begin now. If not, the request is in a queue, and a later `end` returns it."""
        self.held_bytes += size
        each = size.bit_length()
        if each in self._queues or not self._may_begin(each, size):
            self._queues.setdefault(each, deque()).append((size, who))
            return False
        self._in_work[each] = self._in_work.get(each, 0) + size
        return True

    def end(self, size: int) -> list[T]:
        """A request of `size` is done; returns those whose processing begins now."""
        self.held_bytes -= size
        each = size.bit_length()
        self._in_work[each] -= size
        begun: list[T] = []
        queue = self._queues.get(each)
        while queue and self._may_begin(each, queue[0][0]):
            next_size, who = queue.popleft()
            self._in_work[each] += next_size
            begun.append(who)
        if not queue:
            self._queues.pop(each, None)
        if not self._in_work[each]:
            del self._in_work[each]
        return begun

    def _may_begin(self, each: int, size: int) -> bool:
        in_work = self._in_work.get(each, 0)
        return not in_work or in_work + size <= self._most_bytes
