"""Selects the replica from which a consumer reads (KIP-392, Kafka's ReplicaSelector).

The leader returns the selected replica; followers serve any consumer. In-sync replicas have all records that a consumer
may read, so a selection is about their location.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkad.core.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """An in-sync replica on a live broker. `rack` is the broker's broker.rack."""

    broker_id: BrokerId
    rack: str | None
    is_leader: bool


class ReplicaSelector(Protocol):
    """A named way to select replicas for consumers; `replica.selector.class` names it."""

    @property
    def name(self) -> str: ...

    def select(self, partition: TopicPartition, rack_id: str, replicas: Sequence[ReplicaView]) -> BrokerId | None:
        """The broker to read from, one of `replicas`; None is the leader.

        `rack_id` is the consumer's client.rack, or empty. The leader is among the replicas.
        """


class IllegalSelection(Exception):
    """A selector chose a broker without an in-sync replica: a bug of the selector."""


def select(
    selector: ReplicaSelector, partition: TopicPartition, rack_id: str, replicas: Sequence[ReplicaView]
) -> BrokerId | None:
    """The checked choice of `selector`, None for the leader. Raises IllegalSelection."""
    chosen = selector.select(partition, rack_id, replicas)
    if chosen is None:
        return None
    for replica in replicas:
        if replica.broker_id == chosen:
            return None if replica.is_leader else chosen
    where = f"{partition.topic}-{partition.partition}"
    among = sorted(each.broker_id for each in replicas)
    raise IllegalSelection(f"selector {selector.name!r} chose {chosen!r} for {where}: expected one of {among} or None")
