"""Limits how many large requests are processed at once; the others wait in queues.

A decoded request takes several times its size. Each size class (a power of two) has its own queue, so that small
requests do not wait for large ones.
"""

from collections import deque
from typing import Generic, TypeVar

MAX_BYTES = 2 << 20
"""Limit of the requests of one size class in progress; one request is always admitted."""
Request = TypeVar("Request")


class SizeClasses(Generic[Request]):
    """Requests that are processed or wait. `held_bytes` is the size of all of them."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._in_progress: dict[int, int] = {}
        """Bytes, by size class."""
        self._queues: dict[int, deque[tuple[int, Request]]] = {}
        self.held_bytes = 0

    def begin(self, size: int, request: Request) -> bool:
        """Whether processing may start now. If not, the request is queued, and a later `end` returns it."""
        self.held_bytes += size
        size_class = size.bit_length()
        if size_class in self._queues or not self._is_admitted(size_class, size):
            self._queues.setdefault(size_class, deque()).append((size, request))
            return False
        self._in_progress[size_class] = self._in_progress.get(size_class, 0) + size
        return True

    def end(self, size: int) -> list[Request]:
        """A request of `size` is done; returns the requests whose processing starts now."""
        self.held_bytes -= size
        size_class = size.bit_length()
        self._in_progress[size_class] -= size
        started: list[Request] = []
        queue = self._queues.get(size_class)
        while queue and self._is_admitted(size_class, queue[0][0]):
            next_size, request = queue.popleft()
            self._in_progress[size_class] += next_size
            started.append(request)
        if not queue:
            self._queues.pop(size_class, None)
        if not self._in_progress[size_class]:
            del self._in_progress[size_class]
        return started

    def _is_admitted(self, size_class: int, size: int) -> bool:
        in_progress = self._in_progress.get(size_class, 0)
        return not in_progress or in_progress + size <= self._max_bytes
