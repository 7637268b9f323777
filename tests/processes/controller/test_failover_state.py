"""The slots that a restarted controller process finds: none is reused before its owner has freed it."""

from dataclasses import replace
from pathlib import Path

from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.partition_table import TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.processes.controller.failover_state import UnreferencedSlots
from kafkad.processes.controller.startup import open_controller
from tests.processes.controller.opened import forked, make


def test_slots_of_a_deletion_that_was_only_recorded_are_not_reused(tmp_path: Path) -> None:
    """The process died after it had written to the store: no worker knows of the deletion."""
    make(tmp_path / "one" / "orders-0")
    with forked({"log.dirs": str(tmp_path / "one")}) as context:
        handover = ControllerHandover(context.table)
        first = open_controller(context, handover)
        topic = first.controller.image.topics["orders"]
        (slot,) = (row.slot for row in topic.partitions)
        context.table.publish(slot, PartitionSlot(topic_id=topic.id.bytes, partition=0, owner=0, state=STATE_ONLINE))
        handover.keep(first.controller.slots_ever_used, frozenset())
        first.controller.delete_topics(["orders"])
        first.store.close()
        second = open_controller(replace(context, incarnation=context.incarnation + 1), handover)
        assert "orders" not in second.controller.image.topics
        assert second.unreferenced_slots == (slot,)
        second.store.close()


def test_slots_are_reused_when_all_are_freed() -> None:
    table = PartitionTable(SharedRegion("partitions", TABLE_BYTES))
    for owner in (0, 1):
        table.publish(owner, PartitionSlot(topic_id=b"t" * 16, partition=owner, owner=owner, state=STATE_ONLINE))
    slots = UnreferencedSlots(table, (0, 1))
    table.clear(1)
    assert not slots.are_freed()
    table.clear(0)
    assert slots.are_freed()
