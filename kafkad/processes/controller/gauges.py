"""What the controller process counts for the metrics: partitions of the metadata, and failed log directories."""

from collections.abc import Collection

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.controller.image import MetadataImage
from kafkad.core.metrics.catalogue import (
    GLOBAL_PARTITIONS,
    GLOBAL_TOPICS,
    LOG_DIR_OFFLINE,
    OFFLINE_LOG_DIRS,
    OFFLINE_PARTITIONS,
    REASSIGNING_PARTITIONS,
    of_log_dir,
)


def count_offline(block: CounterBlock, offline: Collection[int]) -> None:
    """`offline` are the log directories that have failed: none of them comes back while the broker runs."""
    block[OFFLINE_LOG_DIRS] = len(offline)
    for log_dir in offline:
        block[of_log_dir(LOG_DIR_OFFLINE, log_dir)] = 1


def count_partitions(block: CounterBlock, image: MetadataImage, offline: Collection[int], broker_id: int) -> None:
    """`offline` are the log directories that have failed."""
    topics = image.topics.values()
    count_offline(block, offline)
    block[GLOBAL_TOPICS] = len(topics)
    block[GLOBAL_PARTITIONS] = sum(len(topic.partitions) for topic in topics)
    block[OFFLINE_PARTITIONS] = sum(row.leader < 0 for topic in topics for row in topic.partitions)
    block[REASSIGNING_PARTITIONS] = sum(
        row.leader == broker_id for topic in topics for row in topic.partitions if row.adding or row.removing
    )
