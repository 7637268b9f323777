"""Elections outside of the in-sync replicas: only where the configuration allows them, and where nobody else lives."""

from dataclasses import replace

import pytest

from kafkad.core.cluster.control_requests import LeaderAndIsrRequest
from kafkad.core.controller.image import NO_LEADER
from kafkad.core.controller.store import nodes
from kafkad.core.errors import ErrorCode
from kafkad.core.types import RECOVERED, RECOVERING
from tests.core.controller.elected.test_elected import World, brokers

UNCLEAN = {"unclean.leader.election.enable": "true"}
CLEAN = {"unclean.leader.election.enable": "false"}


@pytest.fixture
def world() -> World:
    """Only broker 1 is in sync, and it is away."""
    made = World(1, 2, 3)
    made.create((1, 2, 3))
    made.controller.brokers_changed(brokers(1))
    made.controller.brokers_changed(brokers(1, 2, 3))
    made.controller.brokers_changed(brokers(2, 3))
    assert (made.row().leader, made.row().isr) == (NO_LEADER, (1,))
    made.sent()
    return made


def test_a_topic_that_allows_it_from_now_on_gets_a_leader_at_once(world: World) -> None:
    controller = world.controller
    controller.configs_changed({"t": CLEAN}, {}, controller.settings)
    assert world.row().leader == NO_LEADER
    epoch = world.row().leader_epoch
    controller.configs_changed({"t": UNCLEAN, "none": UNCLEAN}, {}, controller.settings)
    assert (world.row().leader, world.row().isr, world.row().leader_epoch) == (2, (2,), epoch + 1)
    assert (world.stored().leader, world.stored().isr) == (2, (2,))
    assert world.sent()


def test_the_default_of_brokers_counts_for_topics_that_say_nothing(world: World) -> None:
    controller = world.controller
    allowed = replace(controller.settings, unclean_leader_election_enable=True)
    controller.configs_changed({"t": CLEAN}, {}, controller.settings)
    controller.configs_changed({}, {"": UNCLEAN}, allowed)
    assert world.row().leader == NO_LEADER
    assert controller.image.broker_configs[""] == UNCLEAN
    controller.configs_changed({"t": {}}, {}, allowed)
    assert world.row().leader == 2


def test_a_replica_in_sync_that_lives_leads_all_the_same(world: World) -> None:
    controller = world.controller
    controller.configs_changed({"t": UNCLEAN}, {}, controller.settings)
    world.alter((2, 3))
    controller.brokers_changed(brokers(1, 3))
    assert (world.row().leader, world.row().isr) == (3, (3,))


def test_nobody_leads_when_all_are_away(world: World) -> None:
    controller = world.controller
    controller.configs_changed({"t": UNCLEAN}, {}, controller.settings)
    controller.brokers_changed({})
    assert (world.row().leader, world.row().isr) == (NO_LEADER, (2,))
    controller.brokers_changed(brokers(3))
    assert (world.row().leader, world.row().isr) == (3, (3,))


def test_a_new_controller_knows_what_is_allowed(world: World) -> None:
    world.store.set_data("/config/topics/t", b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}')
    world.fail_over(brokers(2, 3))
    assert (world.row().leader, world.row().isr) == (2, (2,))


# leader_recovery_state (KIP-704).


@pytest.fixture
def recovering(world: World) -> World:
    """Broker 2 leads uncleanly."""
    world.controller.configs_changed({"t": UNCLEAN}, {}, world.controller.settings)
    return world


def node(world: World) -> bytes:
    return world.store.get(nodes.state_path("t", 0)).data


def test_a_partition_recovers_from_an_unclean_election_until_its_leader_has_said_something(recovering: World) -> None:
    assert recovering.stored().leader_recovery_state == RECOVERING
    told = [request for _, request in recovering.sent() if isinstance(request, LeaderAndIsrRequest)]
    assert told
    assert {each.topic_states[0].partition_states[0].leader_recovery_state for each in told} == {RECOVERING}
    assert recovering.alter((2, 3)) is ErrorCode.NONE
    assert (recovering.row().leader_recovery_state, recovering.row().isr) == (RECOVERED, (2, 3))
    assert b"leader_recovery_state" not in node(recovering), "written while it is recovering only"


def test_the_end_of_a_recovery_is_a_change_though_the_in_sync_replicas_stay_the_same(recovering: World) -> None:
    epoch = recovering.row().partition_epoch
    assert recovering.alter((2,), leader_recovery_state=RECOVERING) is ErrorCode.NONE
    assert recovering.row().partition_epoch == epoch, "it is so already"
    assert recovering.alter((2,)) is ErrorCode.NONE
    assert (recovering.row().partition_epoch, recovering.row().leader_recovery_state) == (epoch + 1, RECOVERED)
    assert recovering.alter((2,), partition_epoch=epoch) is ErrorCode.NONE, "it is so already"
    assert recovering.row().partition_epoch == epoch + 1


def test_a_recovery_begins_with_an_election_alone(recovering: World) -> None:
    assert recovering.alter((2,), leader_recovery_state=7) is ErrorCode.INVALID_REQUEST
    assert recovering.alter((2, 3)) is ErrorCode.NONE
    assert recovering.alter((2,), leader_recovery_state=RECOVERING) is ErrorCode.INVALID_REQUEST
    assert recovering.row().isr == (2, 3)


def test_nobody_joins_a_leader_that_recovers(recovering: World) -> None:
    """Its own records may still change."""
    assert recovering.alter((2, 3), leader_recovery_state=RECOVERING) is ErrorCode.INVALID_REQUEST
    assert (recovering.row().isr, recovering.row().leader_recovery_state) == ((2,), RECOVERING)


def test_elections_leave_a_recovery_as_it_is(recovering: World) -> None:
    recovering.controller.brokers_changed({})
    assert (recovering.row().leader, recovering.stored().leader_recovery_state) == (NO_LEADER, RECOVERING)
    recovering.fail_over(brokers(2))
    assert (recovering.row().leader, recovering.stored().leader_recovery_state) == (2, RECOVERING)


def test_what_another_controller_wrote_is_kept(world: World) -> None:
    """As Apache Kafka writes it."""
    path = nodes.state_path("t", 0)
    told = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":9,"isr":[2,3],"leader_recovery_state":%d}'
    world.store.set_data(path, told % RECOVERING)
    world.fail_over(brokers(3))
    assert (world.row().leader, world.stored().leader_recovery_state) == (3, RECOVERING)
    world.store.set_data(path, told % RECOVERED)
    world.fail_over(brokers(3))
    assert (world.row().leader, world.row().leader_recovery_state) == (3, RECOVERED)


def test_unclean_elections_are_counted_and_others_are_not(world: World) -> None:
    controller = world.controller
    assert controller.take_unclean_elections() == 0, "elections among replicas in sync are no losses"
    controller.configs_changed({"t": UNCLEAN}, {}, controller.settings)
    assert world.row().leader == 2
    assert (controller.take_unclean_elections(), controller.take_unclean_elections()) == (1, 0)
    world.alter((2, 3))
    controller.brokers_changed(brokers(1, 3))
    assert (world.row().leader, controller.take_unclean_elections()) == (3, 0)
