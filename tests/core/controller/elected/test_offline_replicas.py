"""A log directory of a broker fails: others lead its partitions, and it gets them back when it has registered anew."""

import pytest

from kafkad.core.cluster.control_requests import LeaderAndIsrRequest, UpdateMetadataRequest
from kafkad.core.controller.elected.node_orders import take_log_dir_events
from kafkad.core.controller.elections import ElectionType
from kafkad.core.controller.image import NO_LEADER
from kafkad.core.controller.store import nodes
from kafkad.core.errors import KafkaError
from kafkad.core.types import TopicPartition
from tests.core.controller.elected.test_elected import World, a_broker, brokers

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world() -> World:
    made = World(1, 2, 3)
    made.create((1, 2), (1, 3))
    made.sent()
    return made


def fail(world: World, broker: int, *partitions: TopicPartition) -> None:
    world.controller.replicas_offline(broker, 100 + broker, partitions)


def offline(world: World) -> dict[int, tuple[int, ...]]:
    """By broker, what it was told last of partition 0."""
    return {
        broker: request.topic_states[0].partition_states[0].offline_replicas
        for broker, request in world.sent()
        if isinstance(request, UpdateMetadataRequest) and request.topic_states
    }


def test_another_one_leads_what_is_in_the_directory(world: World) -> None:
    epoch = world.row().leader_epoch
    fail(world, 1, FIRST)
    assert (world.row().leader, world.row().isr, world.row().leader_epoch) == (2, (2,), epoch + 1)
    assert (world.row(1).leader, world.row(1).isr) == (1, (1, 3))
    assert offline(world) == {1: (1,), 2: (1,), 3: (1,)}
    fail(world, 1, FIRST)
    assert world.sent() == []


def test_a_follower_that_can_not_follow_is_not_in_sync(world: World) -> None:
    fail(world, 2, FIRST)
    assert (world.row().leader, world.row().isr) == (1, (1,))


def test_nobody_else_leads_what_only_it_has(world: World) -> None:
    world.controller.brokers_changed(brokers(1, 3))
    fail(world, 1, FIRST, TopicPartition("none", 0))
    assert (world.row().leader, world.row().isr) == (NO_LEADER, (1,))
    result = world.controller.elect_leaders([FIRST], ElectionType.PREFERRED)[FIRST]
    assert isinstance(result, KafkaError)
    world.controller.brokers_changed({**brokers(3), 1: a_broker(1, 500)})
    assert (world.row().leader, world.row().isr) == (1, (1,))
    assert set(offline(world).values()) == {(2,)}


def test_what_an_earlier_registration_says_does_not_count(world: World) -> None:
    world.controller.brokers_changed({**brokers(2, 3), 1: a_broker(1, 500)})
    world.sent()
    leader = world.row().leader
    fail(world, 1, FIRST)
    fail(world, 7, FIRST)
    assert (world.row().leader, world.sent()) == (leader, [])


def test_a_broker_that_says_so_is_asked_for_all_its_roles(world: World) -> None:
    world.store.create(f"{nodes.LOG_DIR_EVENTS}/log_dir_event_0", b'{"version":1,"broker":3,"event":1}')
    world.store.create(f"{nodes.LOG_DIR_EVENTS}/log_dir_event_1", b"no JSON")
    assert take_log_dir_events(world.tree) == {3}
    assert world.store.children(nodes.LOG_DIR_EVENTS) == []
    world.controller.directories_failed([3])
    ((broker, request),) = world.sent()
    assert isinstance(request, LeaderAndIsrRequest)
    assert (broker, [each.partition_index for each in request.topic_states[0].partition_states]) == (3, [1])


@pytest.mark.parametrize("goes_first", [False, True])
def test_all_brokers_hear_that_a_replica_is_not_offline_any_more(world: World, goes_first: bool) -> None:
    """Its state does not change with the next registration of its broker. Those that are not live need not be named."""
    fail(world, 2, FIRST)
    assert offline_and_live(world) == {1: (2,), 2: (2,), 3: (2,)}
    told = {}
    if goes_first:
        world.controller.brokers_changed(brokers(1, 3))
        told = offline_and_live(world)
    world.controller.brokers_changed({**brokers(1, 3), 2: a_broker(2, 500)})
    assert told | offline_and_live(world) == {1: (), 2: (), 3: ()}


def offline_and_live(world: World) -> dict[int, tuple[int, ...]]:
    """By broker, what it was told last of partition 0, as far as the same request named the brokers as live."""
    return {
        broker: tuple(
            each
            for each in request.topic_states[0].partition_states[0].offline_replicas
            if each in {live.id for live in request.live_brokers}
        )
        for broker, request in world.sent()
        if isinstance(request, UpdateMetadataRequest) and request.topic_states
    }
