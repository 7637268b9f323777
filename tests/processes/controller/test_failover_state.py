"""The slots that a restarted controller process finds: none is reused before its owner has freed it."""

from dataclasses import replace
from pathlib import Path

from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.partition_table import TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.controller.startup.term import claim
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.processes.controller.failover_state import UnreferencedSlots
from tests.processes.controller.opened import forked, make, opened_on


def test_slots_of_a_deletion_that_was_only_recorded_are_not_reused(tmp_path: Path) -> None:
    """The process died after it had written to the store: no worker knows of the deletion."""
    make(tmp_path / "one" / "orders-0")
    with forked({"log.dirs": str(tmp_path / "one")}) as context:
        handover = ControllerHandover(context.table)
        first = opened_on(context)
        topic = first.hosting.image.topics["orders"]
        (slot,) = (row.slot for row in topic.partitions)
        context.table.publish(slot, PartitionSlot(topic_id=topic.id.bytes, partition=0, owner=0, state=STATE_ONLINE))
        handover.keep(first.hosting.slots_ever_used, frozenset())
        MetadataTree(first.store, claim(first.store, 1, 0)).record_deletions([("orders", topic.id, 1)])
        first.store.close()
        second = opened_on(replace(context, incarnation=context.incarnation + 1))
        # Until the controller requests the deletion.
        assert [row.slot for row in second.hosting.image.topics["orders"].partitions] == [slot]
        assert second.hosting._placement.take(1)[0].slot != slot
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
