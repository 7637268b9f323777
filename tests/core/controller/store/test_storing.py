"""A store without room: a change that does not fit is refused as a whole, and nothing else happens."""

import pytest

from kafkad.core.controller.admin import alter_configs, auto_create_topics, create_partitions
from kafkad.core.controller.configs import Alteration, AlterEntry, ResourceType
from kafkad.core.controller.store.storing import PartlyStored
from kafkad.core.controller.topics.deletion import TopicToDelete, delete_topics
from kafkad.core.controller.topics.topics import NewPartitions
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.ports import NoSpaceLeft
from tests.core.controller.world import World


@pytest.fixture
def full() -> World:
    world = World()
    world.start()
    world.create("old", partitions=3)
    world.open_partitions()
    world.controller.take_deltas()
    world.store.left = 0
    world.store.end = NoSpaceLeft("the disk is full")
    return world


def _codes(world: World) -> list[ErrorCode]:
    """Of every change that an administrator may ask for, and of a topic that a client names."""
    controller, rules = world.controller, world.rules
    kinds = ((ResourceType.TOPIC, "old", "retention.ms"), (ResourceType.BROKER, "", "log.retention.ms"))
    alterations = [Alteration(kind, name, (AlterEntry(key, 0, "5"),)) for kind, name, key in kinds]
    return [
        *(result.code for result in world.create("new", "other", partitions=2)),
        auto_create_topics(controller, ["named"], rules, world.random_source)["named"].code,
        create_partitions(controller, [NewPartitions(name="old", count=5)])[0].code,
        *(result.code for result in alter_configs(controller, alterations, rules, incremental=True)),
        delete_topics(controller, [TopicToDelete("old")], version=6)[0].code,
    ]


def test_change_that_does_not_fit_is_refused_and_changes_nothing(full: World) -> None:
    before = full.controller.image
    assert set(_codes(full)) == {ErrorCode.KAFKA_STORAGE_ERROR}
    with pytest.raises(KafkaError):
        full.controller.set_features({"group.version": 0})
    assert (full.controller.image, full.controller.take_deltas(), full.controller.deletions) == (before, [], {})


def test_change_that_was_refused_is_made_when_there_is_room(full: World) -> None:
    _codes(full)
    full.store.left = None
    assert set(_codes(full)) == {ErrorCode.NONE}


def test_topics_that_are_stored_by_half_are_made_by_the_next_controller(full: World) -> None:
    full.store.left = 1
    with pytest.raises(NoSpaceLeft):
        full.create("new", partitions=2)
    full.store.left = None
    full.start()
    assert len(full.controller.image.topics["new"].partitions) == 2


def test_topics_that_do_not_all_fit_are_not_refused_as_if_none_was_made(full: World) -> None:
    names = [f"{'x' * 200}{number}" for number in range(2_000)]
    full.store.left = 1
    with pytest.raises(PartlyStored):
        full.create(*names)
