"""Offsets that wait for the end of a transaction.

Clients get them only after the commit. Each producer has one transaction, which may commit offsets of several groups;
several producers may have pending offsets of the same partition. The cost of lookups by producer and by group does not
depend on the number of pending offsets.
"""

from collections.abc import Iterator

from kafkad.core.groups.offsets.store import Packed

Key = tuple[str, str, int]
"""Group, topic, partition."""


class PendingOffsets:
    __slots__ = ("_by_group", "_by_producer")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Key, Packed]] = {}
        self._by_group: dict[str, dict[tuple[str, int], set[int]]] = {}

    def put(self, producer_id: int, key: Key, packed: Packed) -> None:
        self._by_producer.setdefault(producer_id, {})[key] = packed
        group_id, topic, partition = key
        self._by_group.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self._by_group.get(group_id, {})

    def has_group(self, group_id: str) -> bool:
        return group_id in self._by_group

    def of_group(self, group_id: str) -> list[tuple[str, int]]:
        """(topic, partition)."""
        return list(self._by_group.get(group_id, {}))

    def groups(self) -> Iterator[str]:
        return iter(self._by_group)

    def of(self, key: Key) -> Iterator[Packed]:
        """The pending offsets of all open transactions."""
        group_id, topic, partition = key
        for producer_id in self._by_group.get(group_id, {}).get((topic, partition), ()):
            yield self._by_producer[producer_id][key]

    def remove(self, key: Key) -> None:
        """Remove a deleted offset from all open transactions."""
        group_id, topic, partition = key
        pending = self._by_group.get(group_id)
        if pending is None:
            return
        for producer_id in pending.pop((topic, partition), ()):
            offsets = self._by_producer[producer_id]
            del offsets[key]
            if not offsets:
                del self._by_producer[producer_id]
        if not pending:
            del self._by_group[group_id]

    def take(self, producer_id: int) -> dict[Key, Packed]:
        """Remove and return the pending offsets of the producer, whose transaction has ended."""
        offsets = self._by_producer.pop(producer_id, {})
        for group_id, topic, partition in offsets:
            pending = self._by_group[group_id]
            producers = pending[topic, partition]
            producers.discard(producer_id)
            if not producers:
                del pending[topic, partition]
            if not pending:
                del self._by_group[group_id]
        return offsets
