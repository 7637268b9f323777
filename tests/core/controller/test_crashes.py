"""Every change is interrupted after each write to the store; after a restart the store must be consistent."""

import itertools
from collections.abc import Callable

import pytest

from kafkad.core.controller.admin import alter_configs, create_partitions
from kafkad.core.controller.configs import Alteration, AlterEntry, ResourceType
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.controller.startup.repair import UNLIMITED_RETENTION
from kafkad.core.controller.topics.topics import NewPartitions
from kafkad.core.errors import ErrorCode
from tests.core.controller.world import BROKER_ID, Crash, World

Scenario = Callable[[World], None]


def creating(world: World) -> None:
    world.create("new", "other", partitions=3)
    world.open_partitions()


def adding_partitions(world: World) -> None:
    create_partitions(world.controller, [NewPartitions(name="old", count=5)])
    world.deliver()
    world.open_partitions()


def deleting(world: World) -> None:
    world.delete("old")
    world.delete_directories()


def deleting_and_creating_again(world: World) -> None:
    deleting(world)
    world.create("old", partitions=2)
    world.open_partitions()


def altering(world: World) -> None:
    for kind, name in ((ResourceType.TOPIC, "old"), (ResourceType.BROKER, "")):
        key = "retention.ms" if kind is ResourceType.TOPIC else "log.retention.ms"
        entry = AlterEntry(key, 0, "5")
        alter_configs(world.controller, [Alteration(kind, name, (entry,))], world.rules, incremental=True)


SCENARIOS = [creating, adding_partitions, deleting, deleting_and_creating_again, altering]


def prepared() -> World:
    world = World()
    world.start()
    world.create("old", partitions=3)
    world.open_partitions()
    return world


def check_sound(world: World) -> None:
    """Store, image and disks say the same, and no trace of anything else is left."""
    world.delete_directories()
    assert not world.controller.deletions
    image = world.image
    world.open_partitions()
    expected = {
        f"{topic.name}-{partition.index}": topic.id for topic in image.topics.values() for partition in topic.partitions
    }
    on_disk = dict(itertools.chain(*(disk.items() for disk in world.disks)))
    assert on_disk == expected
    assert sum(map(len, world.disks)) == len(expected)
    paths = world.tree("/brokers/topics")
    for topic in image.topics.values():
        paths -= {f"/brokers/topics/{topic.name}", f"/brokers/topics/{topic.name}/partitions"}
        for partition in topic.partitions:
            assert (partition.leader, partition.isr) == (BROKER_ID, (BROKER_ID,))
            at = f"/brokers/topics/{topic.name}/partitions/{partition.index}"
            paths -= {at, f"{at}/state"}
    assert not paths, "nodes of no topic are left"
    assert set(world.store.children("/config/topics")) == set(image.topics)
    slots = [partition.slot for topic in image.topics.values() for partition in topic.partitions]
    assert len(set(slots)) == len(slots)


def writes_of(scenario: Scenario) -> int:
    world = prepared()
    before = world.store.done
    scenario(world)
    return world.store.done - before


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_restart_after_any_write_finds_a_sound_store(scenario: Scenario) -> None:
    for writes in range(writes_of(scenario)):
        world = prepared()
        world.store.left = writes
        with pytest.raises(Crash):
            scenario(world)
        world.store.left = None
        world.start()
        check_sound(world)
        for result in world.create("old", "new", "other", partitions=3):
            assert result.code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        world.open_partitions()
        check_sound(world)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_restart_that_crashes_itself_after_any_write_is_repaired_by_the_next(scenario: Scenario) -> None:
    for writes in range(0, writes_of(scenario), 3):
        for restart_writes in range(40):
            world = prepared()
            world.store.left = writes
            with pytest.raises(Crash):
                scenario(world)
            world.store.left = restart_writes
            try:
                world.start()
            except Crash:
                world.store.left = None
                world.start()
                check_sound(world)
                continue
            break


def test_adoption_that_crashes_half_way_is_completed() -> None:
    def foreign() -> World:
        world = World()
        world.start()
        world.disks[0] = {"theirs-0": None, "theirs-2": None}
        world.disks[1] = {"more-1": None}
        return world

    whole = foreign()
    before = whole.store.done
    whole.start()
    for writes in range(whole.store.done - before):
        world = foreign()
        world.store.left = writes
        with pytest.raises(Crash):
            world.start()
        world.store.left = None
        world.start()
        image = world.image
        assert {name: len(topic.partitions) for name, topic in image.topics.items()} == {"theirs": 3, "more": 2}
        assert image.topics["theirs"].partitions[2].log_dir == 0
        assert image.topics["more"].partitions[1].log_dir == 1
        # A topic without its configuration would lose at the first look what is older than a week.
        assert all(topic.configs == UNLIMITED_RETENTION for topic in image.topics.values())


def test_producer_ids_are_never_given_twice_across_crashes() -> None:
    world = prepared()
    seen: set[int] = set()
    for _ in range(3):
        ids = ProducerIdControlManager(world.store, BROKER_ID)
        given = [ids.allocate() for _ in range(1200)]
        assert not seen & set(given)
        seen |= set(given)
    assert min(seen) == 0
