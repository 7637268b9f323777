"""What the controller process counts for the metrics: partitions of the metadata, and failed log directories.

Of the whole cluster the active controller counts alone, as in Apache Kafka: elsewhere these gauges are 0.
"""

from collections.abc import Collection

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.controller.elected.balancing import has_preferred_leader
from kafkad.core.controller.image import MetadataImage
from kafkad.core.metrics.catalogue import (
    ACTIVE_CONTROLLER,
    GLOBAL_PARTITIONS,
    GLOBAL_TOPICS,
    LOG_DIR_OFFLINE,
    OFFLINE_LOG_DIRS,
    OFFLINE_PARTITIONS,
    PREFERRED_REPLICA_IMBALANCE,
    REASSIGNING_PARTITIONS,
    of_log_dir,
)


def count_offline(block: CounterBlock, offline: Collection[int]) -> None:
    """`offline` are the log directories that have failed: none of them comes back while the broker runs."""
    block[OFFLINE_LOG_DIRS] = len(offline)
    for log_dir in offline:
        block[of_log_dir(LOG_DIR_OFFLINE, log_dir)] = 1


def count_partitions(block: CounterBlock, image: MetadataImage, offline: Collection[int], broker_id: int) -> None:
    """`offline` are the log directories that have failed. ACTIVE_CONTROLLER says whether this broker is it."""
    count_offline(block, offline)
    rows = [row for topic in image.topics.values() for row in topic.partitions]
    block[REASSIGNING_PARTITIONS] = sum(row.leader == broker_id for row in rows if row.adding or row.removing)
    is_controller = bool(block[ACTIVE_CONTROLLER])
    of_cluster = rows if is_controller else []
    block[GLOBAL_TOPICS] = len(image.topics) if is_controller else 0
    block[GLOBAL_PARTITIONS] = len(of_cluster)
    block[OFFLINE_PARTITIONS] = sum(row.leader < 0 for row in of_cluster)
    block[PREFERRED_REPLICA_IMBALANCE] = sum(not has_preferred_leader(row) for row in of_cluster)
