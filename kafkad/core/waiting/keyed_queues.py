"""A queue for work with several keys that keeps the order of each key.

Kafka promises order within a partition only: work without a partition in common with earlier work does not wait for it.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Work = TypeVar("Work", bound=Hashable)


class KeyedQueues(Generic[Key, Work]):
    """One queue for each key. Work is in the queues of all its keys, and starts when it is first in each."""

    def __init__(self) -> None:
        self._queues: dict[Key, deque[Work]] = {}
        self._keys: dict[Work, tuple[Key, ...]] = {}
        self._blocked_by: dict[Work, int] = {}
        """The number of its queues in which other work is first."""

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __iter__(self) -> Iterator[Work]:
        return iter(self._keys)

    def has_work_for(self, keys: Iterable[Key]) -> bool:
        """Whether there is work with any of these keys."""
        queues = self._queues
        return any(key in queues for key in keys)

    def add(self, work: Work, keys: Iterable[Key]) -> bool:
        """Whether the work may start now; if not, a later `complete` returns it."""
        unique = tuple(dict.fromkeys(keys))
        blocked_by = 0
        for key in unique:
            queue = self._queues.get(key)
            if queue is None:
                self._queues[key] = deque((work,))
            else:
                queue.append(work)
                blocked_by += 1
        self._keys[work] = unique
        self._blocked_by[work] = blocked_by
        return not blocked_by

    def complete(self, work: Work) -> list[Work]:
        """Remove completed work; return the work that may start now."""
        ready = []
        del self._blocked_by[work]
        for key in self._keys.pop(work):
            queue = self._queues[key]
            assert queue[0] is work, "only work that is first in all its queues is processed"
            queue.popleft()
            if not queue:
                del self._queues[key]
                continue
            self._blocked_by[queue[0]] -= 1
            if not self._blocked_by[queue[0]]:
                ready.append(queue[0])
        return ready
