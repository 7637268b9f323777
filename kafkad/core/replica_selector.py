"""From which replica should a consumer read? (KIP-392, Kafka's ReplicaSelector)

The leader says so; followers serve whoever comes. In-sync replicas have all that a consumer may read, so what matters
is where they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkad.core.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """An in-sync replica whose broker is alive. `rack` is that broker's broker.rack."""

    broker_id: BrokerId
    rack: str | None
    is_leader: bool


class ReplicaSelector(Protocol):
    """A named way to send consumers to replicas; `replica.selector.class` names the one to use."""

    @property
    def name(self) -> str: ...

    def select(self, partition: TopicPartition, rack_id: str, replicas: Sequence[ReplicaView]) -> BrokerId | None:
        """The broker to read from, one of `replicas`; None stays with the leader.

        `rack_id` is the consumer's client.rack, empty if it has none. The leader is among the replicas.
        """


class IllegalSelection(Exception):
    """A selector's choice has no in-sync replica: the selector is broken."""


def select(
    selector: ReplicaSelector, partition: TopicPartition, rack_id: str, replicas: Sequence[ReplicaView]
) -> BrokerId | None:
    """The checked choice of `selector`, None for the leader; raises IllegalSelection."""
    chosen = selector.select(partition, rack_id, replicas)
    if chosen is None:
        return None
    for replica in replicas:
        if replica.broker_id == chosen:
            return None if replica.is_leader else chosen
    where = f"{partition.topic}-{partition.partition}"
    among = sorted(each.broker_id for each in replicas)
    raise IllegalSelection(f"selector {selector.name!r} chose {chosen!r} for {where}: expected one of {among} or None")
