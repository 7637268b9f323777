"""A queue from any threads to one loop; its descriptor is readable while the queue has an item.

The descriptor is a level-triggered eventfd, so that the loop misses no item.
"""

import os
from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class EventQueue(Generic[T]):
    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def put(self, item: T) -> None:
        # Append first: the loop must find the item when the descriptor is readable.
        self._items.append(item)
        with suppress(OSError):  # closed meanwhile: there is no reader
            os.eventfd_write(self._eventfd, 1)

    def drain(self) -> list[T]:
        with suppress(BlockingIOError):
            os.eventfd_read(self._eventfd)
        drained: list[T] = []
        while self._items:
            drained.append(self._items.popleft())
        return drained

    def fileno(self) -> int:
        return self._eventfd

    def close(self) -> None:
        os.close(self._eventfd)
