"""A queue for work with several keys that keeps the order of each key.

Kafka promises order within a partition only: work that shares no partition with earlier work need not wait for it.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Work = TypeVar("Work", bound=Hashable)


class KeyedQueues(Generic[Key, Work]):
    """One queue for each key. Work is in the queues of all of its keys, and may begin when it is the first in each."""

    def __init__(self) -> None:
        self._queues: dict[Key, deque[Work]] = {}
        self._keys: dict[Work, tuple[Key, ...]] = {}
        self._ahead: dict[Work, int] = {}
        """In how many of its queues other work is before it."""

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __iter__(self) -> Iterator[Work]:
        return iter(self._keys)

    def holds(self, keys: Iterable[Key]) -> bool:
        """Whether there is work for any of these."""
        queues = self._queues
        return any(key in queues for key in keys)

    def enter(self, work: Work, keys: Iterable[Key]) -> bool:
        """Whether it may begin now; if not a later `leave` returns it."""
        own = tuple(dict.fromkeys(keys))
        ahead = 0
        for key in own:
            queue = self._queues.get(key)
            if queue is None:
                self._queues[key] = deque((work,))
            else:
                queue.append(work)
                ahead += 1
        self._keys[work] = own
        self._ahead[work] = ahead
        return not ahead

    def leave(self, work: Work) -> list[Work]:
        """The work is done; returns the work that may begin now."""
        begun = []
        del self._ahead[work]
        for key in self._keys.pop(work):
            queue = self._queues[key]
            assert queue[0] is work, "only who is the first in all of its queues is worked on"
            queue.popleft()
            if not queue:
                del self._queues[key]
                continue
            self._ahead[queue[0]] -= 1
            if not self._ahead[queue[0]]:
                begun.append(queue[0])
        return begun
