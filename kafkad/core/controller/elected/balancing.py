"""Which partitions should their preferred replicas lead again? (KafkaController.checkAndTriggerAutoLeaderRebalance)

Partitions that are being reassigned as well: the first replica of the target leads as soon as it is in sync.
"""

from kafkad.core.controller.image import MetadataImage, Partition
from kafkad.core.types import TopicPartition


def has_preferred_leader(row: Partition) -> bool:
    """As PreferredReplicaImbalanceCount has it (ControllerContext.hasPreferredLeader): a replica that is being added is
    not missed before it is in sync.
    """
    if not row.replicas:
        return True
    first = row.replicas[0]
    return first not in row.isr if first in row.adding else row.leader == first


def led_elsewhere(image: MetadataImage, percentage: int) -> list[TopicPartition]:
    """Of each broker that does not lead more than `percentage` of the partitions whose preferred replica it has, those
    that it could lead.
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
