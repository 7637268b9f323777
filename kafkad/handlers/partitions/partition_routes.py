"""The slot of each partition in the partition table, from one process's copy of the metadata.

Each change of the metadata replaces it; requests only read it.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from kafkad.wire.processes.descriptors import short_topic_id


class TopicRoute:
    """One topic: `slots[partition]` is the slot, `owners[partition]` the worker; -1 without a replica on this broker.

    `replicas[partition]` are the ids of the brokers with a replica.
    """

    __slots__ = ("is_internal", "name", "owners", "replicas", "short_id", "slots", "topic_id", "uuid")

    def __init__(
        self,
        name: str,
        topic_id: UUID,
        slots: Sequence[int],
        owners: Sequence[int] = (),
        *,
        replicas: Sequence[Sequence[int]] = (),
        is_internal: bool = False,
    ) -> None:
        self.name = name
        self.uuid = topic_id
        self.topic_id = topic_id.bytes
        self.short_id = short_topic_id(topic_id.bytes)
        self.slots = slots
        self.owners = owners or (-1,) * len(slots)
        self.replicas = replicas
        self.is_internal = is_internal

    def has_follower(self, partition: int, broker_id: int, leader_id: int) -> bool:
        """Whether `broker_id` has a replica of a partition that `leader_id` leads."""
        has_replica = partition < len(self.replicas) and broker_id in self.replicas[partition]
        return has_replica and broker_id != leader_id

    def place(self, partition: int) -> tuple[int, int]:
        """(slot, worker) of a partition; (-1, -1) for an unknown partition."""
        if 0 <= partition < len(self.slots):
            return self.slots[partition], self.owners[partition]
        return -1, -1


class Routing:
    """Topics by name and by 16-byte id."""

    __slots__ = ("by_id", "by_name")

    def __init__(self, topics: Iterable[TopicRoute] = ()) -> None:
        self.by_name: dict[str, TopicRoute] = {}
        self.by_id: dict[bytes, TopicRoute] = {}
        for topic in topics:
            self.put(topic)

    def put(self, topic: TopicRoute) -> None:
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic

    def remove(self, name: str) -> None:
        topic = self.by_name.pop(name, None)
        if topic is not None:
            self.by_id.pop(topic.topic_id, None)

    def find(self, topic: str | bytes) -> TopicRoute | None:
        return self.by_name.get(topic) if isinstance(topic, str) else self.by_id.get(topic)
