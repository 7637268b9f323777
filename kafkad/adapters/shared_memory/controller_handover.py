"""State that a controller process leaves to the next one of the same broker, whenever it dies.

It is kept in the last slot of the partition table, which no partition ever gets. A writer killed in the middle of a
write can't damage a slot, and the state ends with the broker, as it should.
"""

from kafkad.adapters.shared_memory.partition_table import SLOTS, PartitionTable
from kafkad.core.partition_slot import STATE_FREE, PartitionSlot

_SLOT = SLOTS - 1
MAX_LOG_DIRS = 62
"""Fewer than the bits of a signed word."""


class ControllerHandover:
    """Written before the metadata that it describes is sent."""

    def __init__(self, table: PartitionTable) -> None:
        self._table = table
        kept = table.read(_SLOT)
        self.slots_ever_used = kept.leo_offset
        """One more than the highest slot that a process may have heard of."""
        self.offline = frozenset(at for at in range(MAX_LOG_DIRS) if kept.hw_offset >> at & 1)
        """Log directories that failed in this incarnation of the broker, by their index."""

    def keep(self, slots_ever_used: int, offline: frozenset[int]) -> None:
        if slots_ever_used == self.slots_ever_used and offline == self.offline:
            return
        assert slots_ever_used < SLOTS, "the last slot of the partition table is not a partition's"
        self.slots_ever_used = slots_ever_used
        self.offline = offline
        mask = sum(1 << at for at in offline)
        self._table.publish(_SLOT, PartitionSlot(state=STATE_FREE, leo_offset=slots_ever_used, hw_offset=mask))
