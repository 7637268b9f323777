"""Reassignment on a cluster: new replicas come in sync before the old ones go, whatever happens in between."""

import pytest

from kafkad.core.cluster.control_requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kafkad.core.controller.admin import create_partitions
from kafkad.core.controller.image import NO_LEADER
from kafkad.core.controller.reassignments import under_way
from kafkad.core.controller.store import nodes
from kafkad.core.controller.topics.assignment import ReplicaAssignment
from kafkad.core.controller.topics.topics import NewPartitions
from kafkad.core.errors import ErrorCode
from kafkad.core.types import TopicPartition
from tests.core.controller.elected.test_elected import World, brokers

AT = TopicPartition("t", 0)


@pytest.fixture
def world() -> World:
    """Five brokers; the partition is on the first three."""
    made = World(1, 2, 3, 4, 5)
    made.create((1, 2, 3))
    made.sent()
    return made


def reassign(world: World, *target: int, at: TopicPartition = AT, may_change: bool = True) -> ErrorCode:
    """No target: the reassignment under way is cancelled."""
    (refusal,) = world.controller.reassign([(at, target or None)], replication_factor_may_change=may_change)
    return ErrorCode.NONE if refusal is None else refusal.code


def node(world: World) -> ReplicaAssignment:
    """As it is stored."""
    found = nodes.read_topic(world.store.get(nodes.topic_path("t")).data)
    return ReplicaAssignment(
        found.partitions["0"], found.adding_replicas.get("0", ()), found.removing_replicas.get("0", ())
    )


def roles(world: World) -> dict[int, tuple[tuple[int, ...], bool]]:
    """Who was told which replicas, and whether its own is new."""
    found = {}
    for broker, request in world.sent():
        if isinstance(request, LeaderAndIsrRequest):
            (state,) = request.topic_states[0].partition_states
            found[broker] = state.replicas, state.is_new
    return found


def stops(world: World) -> list[tuple[int, bool, int]]:
    return [
        (broker, each.delete_partition, each.leader_epoch)
        for broker, request in world.sent()
        if isinstance(request, StopReplicaRequest)
        for each in request.topic_states[0].partition_states
    ]


def test_new_replicas_are_added_to_the_old_ones(world: World) -> None:
    assert reassign(world, 4, 5) is ErrorCode.NONE
    expected = ReplicaAssignment((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))
    assert node(world) == expected
    assert (world.row().leader, world.row().isr, world.row().leader_epoch) == (1, (1, 2, 3), 1)
    assert under_way(world.controller.image, None) == under_way(world.controller.image, [AT]) == {AT: expected}
    assert roles(world) == {each: ((4, 5, 1, 2, 3), each in (4, 5)) for each in (1, 2, 3, 4, 5)}


def test_old_replicas_go_when_all_of_the_target_are_in_sync(world: World) -> None:
    reassign(world, 4, 5)
    world.alter((1, 2, 3, 4))
    assert node(world).is_being_reassigned
    world.sent()
    assert world.alter((1, 2, 3, 4, 5)) is ErrorCode.NONE
    assert node(world) == ReplicaAssignment((4, 5))
    assert (world.row().leader, world.row().isr, world.row().leader_epoch) == (4, (4, 5), 2)
    assert (world.stored().leader, world.stored().isr) == (4, (4, 5))
    assert not under_way(world.controller.image, None)
    sent = world.sent()
    last = {broker: request for broker, request in sent if isinstance(request, UpdateMetadataRequest)}
    assert {request.topic_states[0].partition_states[0].replicas for request in last.values()} == {(4, 5)}
    assert sorted(last) == [1, 2, 3, 4, 5]
    kinds = [(broker, type(request)) for broker, request in sent]
    # A removed replica goes before its broker's metadata says so.
    assert kinds.index((1, StopReplicaRequest)) < max(at for at, each in enumerate(kinds) if each[0] == 1)


def test_removed_replicas_are_deleted(world: World) -> None:
    reassign(world, 2, 3)
    assert stops(world) == [(1, True, 1)]
    assert (world.row().leader, world.row().isr, node(world)) == (2, (2, 3), ReplicaAssignment((2, 3)))


def test_the_leader_stays_if_it_is_one_of_the_target(world: World) -> None:
    reassign(world, 4, 1)
    assert world.alter((1, 2, 3, 4)) is ErrorCode.NONE
    assert (world.row().leader, world.row().replicas, world.row().isr) == (1, (4, 1), (1, 4))


def test_another_order_is_written_at_once(world: World) -> None:
    assert reassign(world, 3, 2, 1) is ErrorCode.NONE
    assert (node(world), world.row().leader) == (ReplicaAssignment((3, 2, 1)), 1)


def test_what_is_so_already_changes_nothing(world: World) -> None:
    assert reassign(world, 1, 2, 3) is ErrorCode.NONE
    assert (world.row().leader_epoch, world.sent()) == (0, [])


def test_a_partition_that_is_named_again_and_again_is_moved_once(world: World) -> None:
    """The last entry counts. Each step writes to ZooKeeper, and tells all brokers."""
    elsewhere = TopicPartition("t", 1)
    wanted = [(AT, (4, 5)), (AT, (1, 4)), (elsewhere, (4, 5)), (AT, (9,)), (AT, (2, 5))]
    codes = [refusal and refusal.code for refusal in world.controller.reassign(wanted)]
    assert codes == [None, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, None]
    assert node(world) == ReplicaAssignment((2, 5, 1, 3), (5,), (1, 3))
    assert world.row().leader_epoch == 1


def test_cancelling_brings_back_the_replicas_of_before(world: World) -> None:
    reassign(world, 4, 5)
    world.alter((1, 2, 3, 4))
    world.sent()
    assert reassign(world) is ErrorCode.NONE
    assert node(world) == ReplicaAssignment((1, 2, 3))
    assert (world.row().isr, world.row().leader) == ((1, 2, 3), 1)
    assert stops(world) == [(4, True, 2), (5, True, 2)]
    assert reassign(world) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_cancelling_moves_the_leader_off_a_new_replica(world: World) -> None:
    reassign(world, 4, 5)
    world.alter((1, 2, 3, 4))
    world.controller.brokers_changed(brokers(2, 4, 5))
    world.controller.brokers_changed(brokers(4, 5))
    assert (world.row().leader, world.row().isr) == (4, (4,))
    # Only the new replica has all records.
    assert reassign(world) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    world.controller.brokers_changed(brokers(2, 4, 5))
    world.alter((4, 2))
    assert reassign(world) is ErrorCode.NONE
    assert (world.row().leader, world.row().isr) == (2, (2,))


def test_another_reassignment_takes_the_place_of_one_under_way(world: World) -> None:
    reassign(world, 4, 1)
    world.sent()
    assert reassign(world, 5, 1) is ErrorCode.NONE
    assert node(world) == ReplicaAssignment((5, 1, 2, 3), (5,), (2, 3))
    assert stops(world) == [(4, True, 2)]


def test_what_can_not_be_is_refused(world: World) -> None:
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert [reassign(world, *each) for each in ((6,), (1, 1), (-1,))] == [refused] * 3
    assert world.controller.reassign([(AT, ())])[0].code is refused  # type: ignore[union-attr]
    for at in (TopicPartition("t", 1), TopicPartition("none", 0), TopicPartition("t", -1)):
        assert reassign(world, 1, at=at) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not under_way(world.controller.image, [at])
    assert reassign(world, 1, 2, may_change=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(world, 4, 2, 5, may_change=False) is ErrorCode.NONE
    assert reassign(world, 4, 2, may_change=False) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_replica_that_is_away_may_stay_but_none_may_come(world: World) -> None:
    world.controller.brokers_changed(brokers(1, 2, 4))
    assert reassign(world, 1, 5) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(world, 4, 3) is ErrorCode.NONE
    assert world.alter((1, 2, 4)) is ErrorCode.NONE
    assert node(world).is_being_reassigned
    world.controller.brokers_changed(brokers(1, 2, 3, 4))
    assert world.alter((1, 2, 4, 3)) is ErrorCode.NONE
    assert node(world) == ReplicaAssignment((4, 3))


def test_partitions_are_added_when_no_replica_moves(world: World) -> None:
    reassign(world, 4, 5)
    (result,) = create_partitions(world.controller, [NewPartitions(name="t", count=2)])
    assert result.code is ErrorCode.REASSIGNMENT_IN_PROGRESS
    reassign(world)
    (result,) = create_partitions(world.controller, [NewPartitions(name="t", count=2)])
    assert result.code is ErrorCode.NONE


def test_the_next_controller_goes_on(world: World) -> None:
    reassign(world, 4, 5)
    world.alter((1, 2, 3, 4))
    world.fail_over(brokers(1, 2, 3, 4, 5))
    assert under_way(world.controller.image, None) == {AT: ReplicaAssignment((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))}
    # 4 is in sync, and must not begin anew elsewhere when its directory is offline.
    assert roles(world) == {each: ((4, 5, 1, 2, 3), each == 5) for each in (1, 2, 3, 4, 5)}
    world.alter((1, 2, 3, 4, 5))
    assert node(world) == ReplicaAssignment((4, 5))


def test_the_next_controller_ends_what_needs_no_more_than_that(world: World) -> None:
    reassign(world, 4, 5)
    world.controller.brokers_changed(brokers(2, 3, 4, 5))
    assert world.alter((2, 3, 4)) is ErrorCode.NONE
    stored = world.store.get(nodes.state_path("t", 0)).data
    in_sync = stored.replace(b"[2,3,4]", b"[2,3,4,5]")
    assert in_sync != stored
    world.store.set_data(nodes.state_path("t", 0), in_sync)
    world.fail_over(brokers(2, 3, 4, 5))
    assert (node(world), world.row().isr) == (ReplicaAssignment((4, 5)), (4, 5))
    assert [(broker, is_deleted) for broker, is_deleted, _ in stops(world)] == [(2, True), (3, True)]


def test_a_removed_replica_is_deleted_when_its_broker_comes_back(world: World) -> None:
    world.controller.brokers_changed(brokers(2, 3, 4, 5))
    reassign(world, 2, 3)
    world.sent()
    world.controller.brokers_changed(brokers(1, 2, 3, 4, 5))
    assert [(broker, is_deleted) for broker, is_deleted, _ in stops(world)] == [(1, True)]
    reassign(world, 2, 3, 1)
    world.controller.brokers_changed(brokers(2, 3, 4, 5))
    world.sent()
    world.controller.brokers_changed(brokers(1, 2, 3, 4, 5))
    assert stops(world) == []


def test_what_was_removed_of_a_topic_is_not_removed_of_one_that_is_made_again(world: World) -> None:
    """The broker that was away for all of that has a replica of the new topic, in an earlier epoch."""
    world.controller.brokers_changed(brokers(2, 3, 4, 5))
    reassign(world, 2, 3)
    world.controller.delete_topics(["t"])
    for broker in (2, 3):
        world.controller.replicas_deleted(["t"], broker)
    world.create((2, 1))
    world.sent()
    world.controller.brokers_changed(brokers(1, 2, 3, 4, 5))
    assert stops(world) == []


def test_a_state_that_names_a_removed_replica_is_mended_in_the_next_term(world: World) -> None:
    """Apache Kafka's controller writes the assignment first, and may die then."""
    found = world.store.get(nodes.topic_path("t"))
    world.store.set_data(nodes.topic_path("t"), found.data.replace(b"[1,2,3]", b"[2,3]"))
    world.fail_over(brokers(1, 2, 3, 4, 5))
    assert (world.row().leader, world.row().isr, world.row().leader_epoch) == (2, (2, 3), 1)


def test_a_topic_is_deleted_with_the_replicas_that_come_and_those_that_go(world: World) -> None:
    reassign(world, 4, 5)
    world.sent()
    world.controller.delete_topics(["t"])
    assert [broker for broker, is_deleted, _ in stops(world) if is_deleted] == [1, 2, 3, 4, 5]
    for broker in (1, 2, 3, 4, 5):
        world.controller.replicas_deleted(["t"], broker)
    assert not world.store.children(nodes.TOPICS)


def test_nobody_leads_when_the_target_is_away(world: World) -> None:
    world.controller.brokers_changed(brokers(1, 4))
    world.alter((1,))
    reassign(world, 4)
    world.alter((1, 4))
    assert node(world) == ReplicaAssignment((4,))
    world.controller.brokers_changed(brokers(1))
    assert (world.row().leader, world.row().isr) == (NO_LEADER, (4,))
