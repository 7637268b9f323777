"""A deletion comes to its end whichever worker dies, and whenever it does."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.shared_memory.partition_table import TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.partition_slot import STATE_FREE, STATE_ONLINE, PartitionSlot
from kafkad.processes.controller.topic_deletion import TopicDeletions
from tests.core.controller.world import World


class Scene:
    """A controller with two partitions of a topic, one for each of two workers."""

    def __init__(self, folder: Path) -> None:
        self.world = World(disks=1)
        self.controller = self.world.start()
        self.home = LogDirectory(folder / "data")
        region = SharedRegion("partitions", TABLE_BYTES)
        self.table = PartitionTable(region)
        self.topic_deletions = TopicDeletions(self.controller, self.table, [self.home])
        self.world.create("orders", partitions=2)
        self.topic = self.controller.image.topics["orders"]
        for row in self.topic.partitions:
            self.table.publish(row.slot, PartitionSlot(topic_id=self.topic.id.bytes, state=STATE_ONLINE))
            (self.home.path / f"orders-{row.index}").mkdir()
        self.controller.take_deltas()

    def delete(self) -> None:
        before = self.controller.image
        self.controller.delete_topics(["orders"])
        self.topic_deletions.began(before, self.controller.take_deltas())

    def slots_of(self, worker: int) -> list[int]:
        return [row.slot for row in self.topic.partitions if row.owner == worker]

    def free_slots(self) -> list[int]:
        return [row.slot for row in self.topic.partitions if self.table.read(row.slot).state == STATE_FREE]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    assert {row.owner for row in scene.topic.partitions} == {0, 1}
    yield scene
    scene.topic_deletions.close()
    scene.home.close()


def test_worker_that_is_dead_when_a_topic_is_deleted_has_nothing_to_do(scene: Scene) -> None:
    """Nobody tells its next incarnation of a topic that is not in the metadata any more."""
    scene.topic_deletions.worker_linked(0)
    scene.topic_deletions.worker_linked(1)
    scene.topic_deletions.worker_ended(1)
    scene.delete()
    assert scene.free_slots() == scene.slots_of(1)
    assert "orders" in scene.controller.deletions
    scene.topic_deletions.removed(scene.topic.id.bytes, scene.slots_of(0))
    scene.world.finish_deletions()
    assert "orders" not in scene.controller.deletions
    removed = {f"orders-{row.index}" for row in scene.topic.partitions if row.owner == 1}
    deadline = time.monotonic() + WITHIN_S
    while len(left := list(scene.home.path.glob("orders-*"))) > 1:
        assert time.monotonic() < deadline, "the directory of the dead worker's partition is not removed"
    assert {each.name for each in left} == {"orders-0", "orders-1"} - removed


def test_worker_that_dies_before_it_has_removed_its_part_is_stood_in_for(scene: Scene) -> None:
    scene.topic_deletions.worker_linked(0)
    scene.topic_deletions.worker_linked(1)
    scene.delete()
    assert scene.free_slots() == []
    scene.topic_deletions.worker_ended(0)
    scene.topic_deletions.removed(scene.topic.id.bytes, scene.slots_of(1))
    assert scene.free_slots() == scene.slots_of(0)
    scene.world.finish_deletions()
    assert "orders" not in scene.controller.deletions
