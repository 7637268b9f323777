"""Queues items for other brokers: one request per broker is pending, and later items go with the next one, as in Apache
Kafka's TransactionMarkerChannelManager and AddPartitionsToTxnManager.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")

AT_ONCE = 500
"""Items of one request."""


class Outbox(Generic[Item]):
    """A request contains each `key` at most once, because the response is matched by it."""

    def __init__(self, key: Callable[[Item], Hashable]) -> None:
        self._key = key
        self._waiting: dict[int, list[Item]] = {}
        self._pending: set[int] = set()

    def add(self, broker: int, item: Item) -> None:
        self._waiting.setdefault(broker, []).append(item)

    def ready(self) -> list[int]:
        """The brokers with items and without a pending request."""
        return [broker for broker in self._waiting if broker not in self._pending]

    def take(self, broker: int) -> list[Item]:
        """The items of the next request, which is pending from now on."""
        chosen: dict[Hashable, Item] = {}
        remaining: list[Item] = []
        for item in self._waiting.pop(broker):
            key = self._key(item)
            if key in chosen or len(chosen) >= AT_ONCE:
                remaining.append(item)
            else:
                chosen[key] = item
        if remaining:
            self._waiting[broker] = remaining
        self._pending.add(broker)
        return list(chosen.values())

    def completed(self, broker: int) -> None:
        """The pending request has a response or failed."""
        self._pending.discard(broker)
