"""What waits to be sent to other brokers: for each one request is under way, and what comes meanwhile goes with the
next, as in Apache Kafka's TransactionMarkerChannelManager and AddPartitionsToTxnManager.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")

AT_ONCE = 500
"""Items of one request."""


class Outbox(Generic[Item]):
    """`key` names what a request may hold once only: the answer is told apart by it."""

    def __init__(self, key: Callable[[Item], Hashable]) -> None:
        self._key = key
        self._waiting: dict[int, list[Item]] = {}
        self._under_way: set[int] = set()

    def add(self, broker: int, item: Item) -> None:
        self._waiting.setdefault(broker, []).append(item)

    def ready(self) -> list[int]:
        """The brokers that can be sent something now."""
        return [broker for broker in self._waiting if broker not in self._under_way]

    def take(self, broker: int) -> list[Item]:
        """The items of the next request, which is under way from now on."""
        chosen: dict[Hashable, Item] = {}
        left: list[Item] = []
        for item in self._waiting.pop(broker):
            key = self._key(item)
            if key in chosen or len(chosen) >= AT_ONCE:
                left.append(item)
            else:
                chosen[key] = item
        if left:
            self._waiting[broker] = left
        self._under_way.add(broker)
        return list(chosen.values())

    def answered(self, broker: int) -> None:
        """Or the request has failed."""
        self._under_way.discard(broker)
