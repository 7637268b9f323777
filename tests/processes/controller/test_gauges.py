"""Gauges of the metadata, as each broker counts them, and those that the active controller counts."""

from uuid import UUID

import pytest
from msgspec import structs

from kafkad.adapters.shared_memory.counters import WORDS_PER_BLOCK
from kafkad.core.controller.image import NO_LEADER, MetadataImage, Partition, Topic
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
from kafkad.processes.controller.gauges import count_offline, count_partitions


def _row(index: int, leader: int) -> Partition:
    replicas = (1, 2)
    return Partition(
        index=index,
        slot=index,
        owner=0,
        log_dir=0,
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        replicas=replicas,
        isr=replicas,
    )


@pytest.mark.parametrize(("broker", "reassigning"), [(1, 2), (2, 1), (3, 0)])
def test_the_leader_of_a_partition_counts_it_while_it_is_reassigned(broker: int, reassigning: int) -> None:
    rows = (
        structs.replace(_row(0, 1), adding=(3,)),
        structs.replace(_row(1, 1), removing=(2,)),
        structs.replace(_row(2, 2), adding=(3,), removing=(1,)),
        structs.replace(_row(3, NO_LEADER), adding=(3,)),
        _row(4, 1),
    )
    topic = Topic(name="t", id=UUID(int=1), partitions=rows, configs={})
    block = memoryview(bytearray(8 * WORDS_PER_BLOCK)).cast("Q")
    count_partitions(block, MetadataImage(topics={"t": topic}), (), broker)
    assert block[REASSIGNING_PARTITIONS] == reassigning


def test_the_cluster_is_counted_by_the_active_controller_alone() -> None:
    rows = (
        _row(0, 1),
        _row(1, 2),
        _row(2, NO_LEADER),
        structs.replace(_row(3, 2), replicas=(3, 1, 2), adding=(3,)),
        structs.replace(_row(4, 2), replicas=(3, 1, 2), adding=(3,), isr=(1, 2, 3)),
    )
    image = MetadataImage(topics={"t": Topic(name="t", id=UUID(int=1), partitions=rows, configs={})})
    block = memoryview(bytearray(8 * WORDS_PER_BLOCK)).cast("Q")
    gauges = (GLOBAL_TOPICS, GLOBAL_PARTITIONS, OFFLINE_PARTITIONS, PREFERRED_REPLICA_IMBALANCE)
    block[ACTIVE_CONTROLLER] = 1
    count_partitions(block, image, (), 1)
    assert [block[each] for each in gauges] == [1, 5, 1, 3]
    block[ACTIVE_CONTROLLER] = 0
    count_partitions(block, image, (), 1)
    assert [block[each] for each in gauges] == [0, 0, 0, 0]


def test_a_log_directory_that_has_failed_is_counted_and_named() -> None:
    block = memoryview(bytearray(8 * WORDS_PER_BLOCK)).cast("Q")
    count_offline(block, {1})
    assert [block[of_log_dir(LOG_DIR_OFFLINE, log_dir)] for log_dir in range(3)] == [0, 1, 0]
    assert block[OFFLINE_LOG_DIRS] == 1
