"""ElectLeaders on a cluster: preferred leaders lead again, others only where somebody says so."""

import pytest

from kafkad.core.cluster.control_requests import ControlledShutdownRequest, LeaderAndIsrRequest
from kafkad.core.controller.elections import ElectionType
from kafkad.core.controller.image import NO_LEADER
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.types import TopicPartition
from tests.core.controller.elected.test_elected import World, brokers

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world() -> World:
    """Broker 1 has been away, and has caught up with one of its two partitions."""
    made = World(1, 2, 3)
    made.create((1, 2, 3), (1, 2, 3))
    made.controller.brokers_changed(brokers(2, 3))
    made.controller.brokers_changed(brokers(1, 2, 3))
    assert made.alter((2, 3, 1)) is ErrorCode.NONE
    made.sent()
    return made


def codes(world: World, kind: ElectionType, *wanted: TopicPartition) -> dict[TopicPartition, ErrorCode]:
    results = world.controller.elect_leaders(wanted or None, kind)
    return {at: each.code if isinstance(each, KafkaError) else ErrorCode.NONE for at, each in results.items()}


def test_a_preferred_leader_that_is_in_sync_leads_again(world: World) -> None:
    epoch = world.row().leader_epoch
    assert codes(world, ElectionType.PREFERRED) == {
        FIRST: ErrorCode.NONE,
        SECOND: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
    assert (world.row().leader, world.row().isr, world.row().leader_epoch) == (1, (2, 3, 1), epoch + 1)
    assert (world.stored().leader, world.stored().isr) == (1, (2, 3, 1))
    assert world.row(1).leader == 2
    told = [(broker, request) for broker, request in world.sent() if isinstance(request, LeaderAndIsrRequest)]
    assert [broker for broker, _ in told] == [1, 2, 3]
    leaders = {state.leader for _, request in told for state in request.topic_states[0].partition_states}
    assert leaders == {1}


def test_one_that_leads_is_named_only_if_it_was_asked_for(world: World) -> None:
    codes(world, ElectionType.PREFERRED, FIRST)
    assert codes(world, ElectionType.PREFERRED, FIRST) == {FIRST: ErrorCode.ELECTION_NOT_NEEDED}
    assert FIRST not in codes(world, ElectionType.PREFERRED)
    assert codes(world, ElectionType.UNCLEAN, FIRST, SECOND) == dict.fromkeys(
        (FIRST, SECOND), ErrorCode.ELECTION_NOT_NEEDED
    )


def test_what_is_not_there_is_not_elected(world: World) -> None:
    wanted = (TopicPartition("t", 2), TopicPartition("t", -1), TopicPartition("none", 0))
    assert codes(world, ElectionType.PREFERRED, *wanted) == dict.fromkeys(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_an_unclean_election_needs_somebody_who_lives_and_a_partition_without_leader(world: World) -> None:
    world.controller.brokers_changed(brokers(1))
    assert (world.row().leader, world.row(1).leader) == (1, NO_LEADER)
    isr = world.row(1).isr
    assert 1 not in isr
    assert codes(world, ElectionType.PREFERRED, SECOND) == {SECOND: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert codes(world, ElectionType.UNCLEAN) == {SECOND: ErrorCode.NONE}
    assert (world.row(1).leader, world.row(1).isr, world.stored(1).isr) == (1, (1,), (1,))
    world.controller.brokers_changed({})
    assert codes(world, ElectionType.UNCLEAN, FIRST) == {FIRST: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_a_broker_that_is_shutting_down_does_not_lead_again(world: World) -> None:
    world.controller.controlled_shutdown(ControlledShutdownRequest(broker_id=1, broker_epoch=101))
    assert codes(world, ElectionType.PREFERRED, FIRST) == {FIRST: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
