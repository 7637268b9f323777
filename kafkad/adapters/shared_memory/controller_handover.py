"""State that survives the death of the controller process, for its next incarnation.

The state is in the last slot of the partition table, which no partition uses: a killed writer can't damage a slot, and
the state ends with the broker.
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
        stored = table.read(_SLOT)
        self.slots_ever_used = stored.leo_offset
        """One more than the highest slot in any metadata that was sent."""
        self.offline = frozenset(at for at in range(MAX_LOG_DIRS) if stored.hw_offset >> at & 1)
        """The indexes of log directories that failed since the start of the broker."""

    def keep(self, slots_ever_used: int, offline: frozenset[int]) -> None:
        if slots_ever_used == self.slots_ever_used and offline == self.offline:
            return
        assert slots_ever_used < SLOTS, "no partition may use the last slot of the partition table"
        self.slots_ever_used = slots_ever_used
        self.offline = offline
        mask = sum(1 << at for at in offline)
        self._table.publish(_SLOT, PartitionSlot(state=STATE_FREE, leo_offset=slots_ever_used, hw_offset=mask))
