"""The partition states after a controlled shutdown of a broker (Apache Kafka: doControlledShutdown).

A partition with one replica stays as it is.
"""

from collections.abc import Iterable
from dataclasses import replace

from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import Partition, Topic
from kafkad.core.controller.partition_rows import state_of
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.types import TopicPartition


def led_by_others(electorate: Electorate, leaving: int, at: TopicPartition, row: Partition) -> PartitionState | None:
    """The state with another leader; None: this broker does not lead, or no other replica can."""
    if row.leader != leaving or len(row.replicas) < 2:
        return None
    return electorate.state_after_controlled_shutdown(at, row.replicas, state_of(row))


def not_in_sync(leaving: int, row: Partition) -> PartitionState | None:
    """The state without the follower in the ISR; None: it is not in the ISR, leads, or is the only member."""
    if row.leader == leaving or leaving not in row.isr or len(row.isr) < 2:
        return None
    isr = tuple(replica for replica in row.isr if replica != leaving)
    return replace(state_of(row), leader_epoch=row.leader_epoch + 1, isr=isr)


def partitions_of(
    leaving: int, topics: Iterable[Topic]
) -> tuple[list[tuple[Topic, list[Partition]]], list[TopicPartition]]:
    """(the partitions that it follows, the partitions with other replicas that it still leads)."""
    followed: list[tuple[Topic, list[Partition]]] = []
    remaining: list[TopicPartition] = []
    for topic in topics:
        rows = [row for row in topic.partitions if leaving in row.replicas and len(row.replicas) > 1]
        remaining += [TopicPartition(topic.name, row.index) for row in rows if row.leader == leaving]
        follows = [row for row in rows if row.leader != leaving]
        if follows:
            followed.append((topic, follows))
    return followed, remaining
