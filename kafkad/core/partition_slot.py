"""What the owner of a partition publishes about it to every other process of the broker.

Only the values are here; the adapter keeps them in shared memory.
"""

from typing import NamedTuple, Protocol

from kafkad.core.types import HIGH_WATERMARK, NO_OWNER, TXN_COMMITTED, LogPosition

ROLE_NONE, ROLE_LEADER, ROLE_FOLLOWER = 0, 1, 2
STATE_FREE, STATE_RECOVERING, STATE_ONLINE, STATE_OFFLINE, STATE_DELETING = range(5)


class PartitionSlot(NamedTuple):
    """One partition as its owner last published it.

    A NamedTuple: it is read for each partition of each fetch, and a dataclass would cost three times as much.
    `generation` is bumped whenever files that readers may hold change. hw, lso and leo are high watermark, last stable
    offset and log end, each with its segment's base offset and byte position there. `cleaned_offset` is where the last
    compaction ended, -1 if there was none. `future_dir` is the log directory to which the partition is being moved, -1
    for none; what was copied ends at `future_end`. `epoch_start` is where the log of a leader with followers ended when
    its leader epoch began: until the high watermark is there, the leader does not know what is committed.
    """

    topic_id: bytes = bytes(16)
    partition: int = -1
    owner: int = NO_OWNER
    log_dir: int = -1
    role: int = ROLE_NONE
    state: int = STATE_FREE
    leader_epoch: int = -1
    generation: int = 0
    log_start: int = 0
    hw_offset: int = 0
    hw_segment: int = 0
    hw_position: int = 0
    lso_offset: int = 0
    lso_segment: int = 0
    lso_position: int = 0
    leo_offset: int = 0
    leo_segment: int = 0
    leo_position: int = 0
    size_bytes: int = 0
    segment_count: int = 0
    recovery_point: int = 0
    cleaned_offset: int = -1
    future_dir: int = -1
    future_end: int = 0
    future_bytes: int = 0
    epoch_start: int = 0
    min_in_sync: int = 1

    def upper_bound(self, isolation: int) -> LogPosition:
        """The end of what a fetch may read."""
        if isolation == HIGH_WATERMARK:
            return LogPosition(self.hw_offset, self.hw_segment, self.hw_position)
        if isolation == TXN_COMMITTED:
            return LogPosition(self.lso_offset, self.lso_segment, self.lso_position)
        return LogPosition(self.leo_offset, self.leo_segment, self.leo_position)

    def upper_offset(self, isolation: int) -> int:
        """The offset of `upper_bound`."""
        if isolation == HIGH_WATERMARK:
            return self.hw_offset
        return self.lso_offset if isolation == TXN_COMMITTED else self.leo_offset


class SlotReader(Protocol):
    """Reads partitions as last published, without asking their owners."""

    def read(self, slot: int) -> PartitionSlot: ...
