"""Preferred replicas lead again when a broker leads too few of the partitions that are its own."""

from kafkad.core.controller.elected.balancing import imbalanced_partitions
from kafkad.core.errors import ErrorCode
from kafkad.core.types import TopicPartition
from tests.core.controller.elected.test_elected import World, brokers


def all_in_sync_after_an_absence(*assignments: tuple[int, ...]) -> World:
    """Broker 1 was away, leads nothing, and is in sync in partition 0 only."""
    world = World(1, 2, 3)
    world.create(*assignments)
    world.controller.brokers_changed(brokers(2, 3))
    world.controller.brokers_changed(brokers(1, 2, 3))
    world.alter((2, 1))
    world.sent()
    return world


def test_a_broker_that_is_in_sync_leads_again() -> None:
    world = all_in_sync_after_an_absence((1, 2), (1, 3), (2, 3))
    assert world.controller.balance_leaders(10) == 1
    assert [world.row(index).leader for index in range(3)] == [1, 3, 2]
    assert world.sent()
    assert world.controller.balance_leaders(10) == 0
    assert world.sent() == []


def test_a_share_that_is_tolerated_changes_nothing() -> None:
    world = all_in_sync_after_an_absence((1, 2), (2, 3))
    image = world.controller.image
    assert imbalanced_partitions(image, 99) == [TopicPartition("t", 0)]
    assert imbalanced_partitions(image, 100) == []
    assert world.controller.balance_leaders(100) == 0


def test_a_partition_that_is_being_reassigned_is_led_by_the_first_of_its_target_once_that_is_in_sync() -> None:
    """As Apache Kafka since 3.4 (KAFKA-10149); before, nothing was balanced while anything was reassigned."""
    world = World(1, 2, 3)
    world.create((1, 2))
    world.controller.reassign([(TopicPartition("t", 0), (3, 4, 2))])
    world.controller.brokers_changed(brokers(1, 2, 3, 4))
    world.controller.reassign([(TopicPartition("t", 0), (3, 4, 2))])
    assert world.controller.balance_leaders(10) == 0, "it is not in sync yet"
    assert world.alter((1, 2, 3)) is ErrorCode.NONE
    assert world.controller.balance_leaders(10) == 1
    assert (world.row().leader, world.row().adding, world.row().removing) == (3, (3, 4), (1,))


def test_a_broker_that_is_away_gets_nothing() -> None:
    world = all_in_sync_after_an_absence((1, 2))
    world.controller.brokers_changed(brokers(2, 3))
    assert imbalanced_partitions(world.controller.image, 10) == []
