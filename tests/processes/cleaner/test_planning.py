"""Which logs are looked at for compaction, and when again?"""

from uuid import UUID

from kafkad.core.controller.deltas import snapshot
from kafkad.core.controller.image import MetadataImage, Partition, Topic
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.plugins.compaction import Compaction
from kafkad.processes.cleaner.planning import Planner
from kafkad.wire.processes.descriptors import SegmentRow, SegmentsOf
from tests.config.configurations import configured

ID = UUID(int=7)
SLOT = 4
CONFIG = configured()
NOW = 1_700_000_000_000


class Looks:
    """A planner with one compacted log, of which the test says what its owner has published."""

    def __init__(self) -> None:
        self.slot = PartitionSlot(
            topic_id=ID.bytes, state=STATE_ONLINE, segment_count=2, size_bytes=1000, leo_segment=10, recovery_point=10
        )
        self.planner = Planner({"compact": Compaction()}, lambda _: self.slot, lambda _: True, {})
        row = Partition(
            index=0, slot=SLOT, owner=0, log_dir=0, leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,)
        )
        topic = Topic(name="t", id=ID, partitions=(row,), configs={"cleanup.policy": "compact"})
        image = MetadataImage(version=1, topics={"t": topic}, names_by_id={ID: "t"})
        self.planner.apply(image, snapshot(image))

    def look(self) -> bool:
        """Whether the owner is asked for the segments of the log."""
        return bool(self.planner.begin_compaction_look(CONFIG))

    def describe(self, *, cleanable_end: int) -> None:
        """The owner answers: one segment before the active one, which begins at 10."""
        rows = [SegmentRow(0, 900, NOW, NOW, False, NOW), SegmentRow(10, 100, NOW, NOW, True, NOW)]
        list(self.planner.plan(SegmentsOf(SLOT, 0, 12, 12, cleanable_end, -1, rows), CONFIG, NOW))


def test_a_log_that_has_not_moved_is_not_looked_at_again() -> None:
    looks = Looks()
    assert looks.look()
    looks.describe(cleanable_end=10)
    assert not looks.look()
    # Somebody syncs the active segment, which no pass can read.
    looks.slot = looks.slot._replace(recovery_point=12)
    assert not looks.look()


def test_a_log_whose_markers_were_not_on_disk_is_looked_at_when_they_are() -> None:
    looks = Looks()
    assert looks.look()
    looks.describe(cleanable_end=3)
    assert not looks.look()
    looks.slot = looks.slot._replace(recovery_point=12)
    assert looks.look()
