"""The metadata of a network process: which slot has which partition, as replicas come and go."""

from uuid import UUID

from kafkad.core.controller.deltas import MetadataDelta, ReplicasRemoved, TopicCreated, TopicDeleted, apply, snapshot
from kafkad.core.controller.image import NO_SLOT, MetadataImage, Partition, Topic
from kafkad.processes.network.metadata_copy import MetadataCopy, Moved

ID = UUID(int=7)


def a_row(index: int, slot: int) -> Partition:
    return Partition(
        index=index,
        slot=slot,
        owner=0 if slot >= 0 else -1,
        log_dir=0,
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        replicas=(1, 2),
        isr=(1,),
    )


def applied(copy: MetadataCopy, delta: MetadataDelta) -> Moved:
    return copy.apply(apply(copy.image, delta), delta)


def a_copy() -> MetadataCopy:
    copy = MetadataCopy()
    applied(copy, snapshot(MetadataImage(version=1, cluster_id="c")))
    topic = Topic(name="t", id=ID, partitions=(a_row(0, 5), a_row(1, NO_SLOT), a_row(2, 6)), configs={})
    applied(copy, MetadataDelta(2, (TopicCreated(topic),)))
    return copy


def test_partitions_without_a_replica_here_have_no_slot() -> None:
    assert a_copy().names == {5: ("t", 0), 6: ("t", 2)}


def test_a_replica_that_moved_away_leaves_its_slot() -> None:
    copy = a_copy()
    moved = applied(copy, MetadataDelta(3, (ReplicasRemoved("t", ID, (a_row(0, NO_SLOT),), (5,)),)))
    assert list(moved.removed) == [5]
    assert copy.names == {6: ("t", 2)}
    assert list(copy.routing.by_name["t"].slots) == [NO_SLOT, NO_SLOT, 6]


def test_a_topic_may_go_together_with_its_last_replicas() -> None:
    copy = a_copy()
    gone = ReplicasRemoved("t", ID, (a_row(0, NO_SLOT), a_row(2, NO_SLOT)), (5, 6))
    moved = applied(copy, MetadataDelta(3, (gone, TopicDeleted("t", ID, ()))))
    assert list(moved.removed) == [5, 6]
    assert (copy.names, dict(copy.routing.by_name)) == ({}, {})


def test_requests_for_a_leader_elsewhere_go_to_no_worker() -> None:
    topic = Topic(name="t", id=ID, partitions=(a_row(0, 5), a_row(1, NO_SLOT)), configs={})
    routes = []
    for broker_id in (1, 2):
        copy = MetadataCopy(broker_id)
        applied(copy, snapshot(MetadataImage(version=1, cluster_id="c", topics={"t": topic})))
        routes.append([copy.routing.by_name["t"].place(partition) for partition in (0, 1)])
    assert routes == [[(5, 0), (-1, -1)], [(5, -1), (-1, -1)]]
