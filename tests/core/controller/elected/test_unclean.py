"""Elections outside of the in-sync replicas: only where the configuration allows them, and where nobody else lives."""

from dataclasses import replace

import pytest

from kafkad.core.controller.image import NO_LEADER
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
