"""Finds the partitions whose preferred leaders to elect (KafkaController.checkAndTriggerAutoLeaderRebalance).

This includes partitions that are being reassigned: the first target replica leads as soon as it is in sync.
"""

from kafkad.core.controller.image import MetadataImage, Partition
from kafkad.core.types import TopicPartition


def has_preferred_leader(row: Partition) -> bool:
    """As PreferredReplicaImbalanceCount counts (ControllerContext.hasPreferredLeader): a replica that is being added
    counts only when it is in sync.
    """
    if not row.replicas:
        return True
    first = row.replicas[0]
    return first not in row.isr if first in row.adding else row.leader == first


def imbalanced_partitions(image: MetadataImage, percentage: int) -> list[TopicPartition]:
    """For each broker that does not lead more than `percentage` of the partitions that prefer it: those of them that it
    could lead.
    """
    preferred: dict[int, int] = {}
    elsewhere: dict[int, list[tuple[TopicPartition, Partition]]] = {}
    for name, topic in image.topics.items():
        for row in topic.partitions:
            if not row.replicas:
                continue
            first = row.replicas[0]
            preferred[first] = preferred.get(first, 0) + 1
            if row.leader != first:
                elsewhere.setdefault(first, []).append((TopicPartition(name, row.index), row))
    return [
        at
        for first, rows in elsewhere.items()
        if len(rows) * 100 > percentage * preferred[first] and first in image.brokers
        for at, row in rows
        if first in row.isr
    ]
