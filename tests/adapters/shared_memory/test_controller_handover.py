"""What a controller leaves to the next one, beside as many partitions as a broker can have."""

from collections.abc import Iterator

import pytest

from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.partition_table import SLOTS, TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.controller.topics.placement import PARTITION_SLOTS, Placement, SlotTable
from kafkad.core.errors import KafkaError
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot


@pytest.fixture
def table() -> Iterator[PartitionTable]:
    region = SharedRegion("test-notebook", TABLE_BYTES)
    yield PartitionTable(region)
    region.close()


def test_what_was_kept_is_read_by_the_next_controller(table: PartitionTable) -> None:
    ControllerHandover(table).keep(12, frozenset({0, 3}))
    following = ControllerHandover(table)
    assert (following.slots_ever_used, following.offline) == (12, frozenset({0, 3}))


def test_the_last_partition_that_a_broker_has_room_for_leaves_the_notes_as_they_are(table: PartitionTable) -> None:
    slots = SlotTable(ever_used=SLOTS - 3)
    placement = Placement(slots, 1, [0])
    last = placement.take(slots.available())[-1]
    with pytest.raises(KafkaError, match="space for 0 more"):
        placement.take(1)
    ControllerHandover(table).keep(placement.slots_ever_used, frozenset({1}))
    table.publish(last.slot, PartitionSlot(state=STATE_ONLINE, leo_offset=5, hw_offset=0))
    following = ControllerHandover(table)
    assert (following.slots_ever_used, following.offline) == (PARTITION_SLOTS, frozenset({1}))
