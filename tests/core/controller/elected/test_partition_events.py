"""What the controller logs of elections."""

import pytest

from kafkad.core.partition_lines import Level
from kafkad.core.types import TopicPartition
from tests.core.controller.elected.test_elected import World, brokers
from tests.core.controller.elected.test_unclean import UNCLEAN


@pytest.fixture
def world() -> World:
    made = World(1, 2, 3)
    made.create((1, 2, 3), (2, 3, 1))
    made.controller.take_lines()
    return made


def lines(world: World) -> list[tuple[Level, str]]:
    """What is said of partitions, each up to its cause."""
    return [(level, text.partition(": ")[0]) for level, text in world.controller.take_lines() if " t-0" in text]


def test_a_broker_that_is_gone_leaves_the_isr_of_its_partitions_by_one_line(world: World) -> None:
    world.controller.brokers_changed(brokers(1, 2))
    assert world.controller.take_lines() == [
        (Level.INFO, "broker 3 is not registered any more: its session ended"),
        (
            Level.WARNING,
            "ISR shrunk for t-0 from [1,2,3] to [1,2], t-1 from [2,3,1] to [2,1]: broker 3 is not registered",
        ),
    ]


def test_the_cause_is_that_of_the_replica(world: World) -> None:
    controller = world.controller
    controller.brokers_changed(brokers(1, 2, 3), frozenset({3}))
    assert controller.take_lines()[0].text.endswith(": the host of broker 3 refuses connections")
    world.alter((1, 2, 3))
    controller.replicas_offline(1, 101, [TopicPartition("t", 0)])
    assert controller.take_lines()[0].text.endswith(": the log directory of broker 1 is offline or full")


def test_a_change_that_a_leader_asks_for_is_the_leaders_to_log(world: World) -> None:
    world.alter((1, 2))
    assert world.row().isr == (1, 2)
    assert world.controller.take_lines() == []


def test_a_partition_without_leader_and_its_next_one(world: World) -> None:
    world.controller.brokers_changed(brokers(1))
    world.controller.take_lines()
    world.controller.brokers_changed({})
    assert lines(world) == [(Level.ERROR, "no leader for t-0 (ISR [1]), t-1 (ISR [1])")]
    world.controller.brokers_changed(brokers(1, 2))
    epoch = world.row().leader_epoch
    assert lines(world) == [
        (Level.INFO, f"new leader for t-0 (leader 1, leader epoch {epoch}), t-1 (leader 1, leader epoch {epoch})")
    ]


def test_an_unclean_election_names_the_leader_and_who_had_the_records(world: World) -> None:
    world.controller.brokers_changed(brokers(1))
    world.controller.brokers_changed({})
    world.controller.brokers_changed(brokers(2))
    world.controller.take_lines()
    world.controller.configs_changed({"t": UNCLEAN}, {}, world.controller.settings)
    epoch = world.row().leader_epoch
    named = ", ".join(f"t-{index} (leader 2, previous ISR [1], leader epoch {epoch})" for index in (0, 1))
    assert lines(world) == [(Level.ERROR, f"unclean leader election for {named}")]


def test_a_new_controller_logs_what_it_found_and_what_it_elected(world: World) -> None:
    world.controller.brokers_changed(brokers(1))
    world.fail_over(brokers(2, 3))
    assert lines(world) == [(Level.ERROR, "no leader for t-0 (ISR [1]), t-1 (ISR [1])")]
    world.fail_over(brokers(3))
    assert lines(world) == [(Level.ERROR, "no leader for t-0 (ISR [1]), t-1 (ISR [1])")], "as long as it lasts"
    other = World(1, 2, 3)
    other.create((1, 2, 3))
    other.fail_over(brokers(2, 3))
    assert lines(other) == [(Level.WARNING, "ISR shrunk for t-0 from [1,2,3] to [2,3]")]
