"""Gauges of the metadata, as each broker counts them, and those that the active controller counts."""

from uuid import UUID

import pytest
from msgspec import structs

from kafkad.adapters.shared_memory.counters import WORDS_PER_BLOCK
from kafkad.core.controller.deltas import (
    BrokersChanged,
    Change,
    MetadataDelta,
    PartitionsAdded,
    PartitionsChanged,
    ReplicasRemoved,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    apply,
)
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
from kafkad.processes.controller.gauges import PartitionGauges, count_offline


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
    PartitionGauges(block, broker).count(MetadataImage(topics={"t": topic}))
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
    counted = PartitionGauges(block, 1)
    counted.count(image)
    assert [block[each] for each in gauges] == [1, 5, 1, 3]
    block[ACTIVE_CONTROLLER] = 0
    counted.count(image)
    assert [block[each] for each in gauges] == [0, 0, 0, 0]


def _topic(name: str, *rows: Partition, number: int = 1) -> Topic:
    return Topic(name=name, id=UUID(int=number), partitions=rows, configs={})


def test_topics_that_change_are_counted_again() -> None:
    """What is counted topic by topic is what a count of all topics gives."""
    block = memoryview(bytearray(8 * WORDS_PER_BLOCK)).cast("Q")
    block[ACTIVE_CONTROLLER] = 1
    gauges = (GLOBAL_TOPICS, GLOBAL_PARTITIONS, OFFLINE_PARTITIONS, PREFERRED_REPLICA_IMBALANCE, REASSIGNING_PARTITIONS)
    first = _topic("first", _row(0, 1), _row(1, NO_LEADER))
    image = MetadataImage(topics={"first": first}, names_by_id={first.id: "first"})
    counted = PartitionGauges(block, 1)
    counted.count(image)
    moved = structs.replace(_row(1, 1), adding=(3,))
    changes: list[Change] = [
        TopicCreated(_topic("second", _row(0, 2), number=2)),
        PartitionsAdded("second", (_row(1, NO_LEADER), _row(2, 1))),
        PartitionsChanged("first", (moved,)),
        ReplicasRemoved("second", UUID(int=2), (_row(2, 2),), ()),
        TopicConfigChanged("second", {}),
        BrokersChanged(()),
        TopicDeleted("first", first.id, ()),
        TopicCreated(_topic("first", _row(0, 1), number=3)),
    ]
    for change in changes:
        delta = MetadataDelta(image.version + 1, (change,))
        image = apply(image, delta)
        counted.changed([delta])
        counted.count(image)
        shown = [block[each] for each in gauges]
        PartitionGauges(block, 1).count(image)
        assert shown == [block[each] for each in gauges], change


def test_a_log_directory_that_has_failed_is_counted_and_named() -> None:
    block = memoryview(bytearray(8 * WORDS_PER_BLOCK)).cast("Q")
    count_offline(block, {1})
    assert [block[of_log_dir(LOG_DIR_OFFLINE, log_dir)] for log_dir in range(3)] == [0, 1, 0]
    assert block[OFFLINE_LOG_DIRS] == 1
