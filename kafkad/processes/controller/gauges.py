"""What the controller process counts for the metrics: partitions of the metadata, and failed log directories."""

from collections.abc import Collection

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.controller.image import MetadataImage
from kafkad.core.metrics.catalogue import (
    GLOBAL_PARTITIONS,
    GLOBAL_TOPICS,
    OFFLINE_LOG_DIRS,
    OFFLINE_PARTITIONS,
    REASSIGNING_PARTITIONS,
)


def count_partitions(block: CounterBlock, image: MetadataImage, offline: Collection[int], broker_id: int) -> None:
    """`offline` are the log directories that have failed."""
    topics = image.topics.values()
    block[OFFLINE_LOG_DIRS] = len(offline)
    block[GLOBAL_TOPICS] = len(topics)
    block[GLOBAL_PARTITIONS] = sum(len(topic.partitions) for topic in topics)
    block[OFFLINE_PARTITIONS] = sum(row.leader < 0 for topic in topics for row in topic.partitions)
    block[REASSIGNING_PARTITIONS] = sum(
        row.leader == broker_id for topic in topics for row in topic.partitions if row.adding or row.removing
    )
