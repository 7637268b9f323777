"""The state of a partition that its owner publishes to all other processes of the broker.

These are the values; the adapter keeps them in shared memory.
"""

from typing import NamedTuple, Protocol

from kafkad.core.types import HIGH_WATERMARK, NO_OWNER, TXN_COMMITTED, LogPosition

ROLE_NONE, ROLE_LEADER, ROLE_FOLLOWER = 0, 1, 2
STATE_FREE, STATE_RECOVERING, STATE_ONLINE, STATE_OFFLINE, STATE_DELETING = range(5)


class PartitionSlot(NamedTuple):
    """The state of one partition as its owner last published it.

    A NamedTuple, because it is read for each partition of each fetch; a dataclass would cost three times as much.
    `generation` is increased when files that readers use change. hw, lso and leo are high watermark, last stable offset
    and log end offset, each with the base offset of its segment and the byte position there. `cleaned_offset` is the
    end of the last compaction, -1 if there was none. `future_dir` is the log directory to which the partition is being
    moved, -1 for none; the copy ends at `future_end`. `epoch_start` is the log end offset of a leader with followers at
    the beginning of its leader epoch: until the high watermark reaches it, the leader does not know what is committed.
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
        """The end of the records that a fetch may read."""
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
    """Reads the published state of partitions, without a message to their owners."""

    def read(self, slot: int) -> PartitionSlot: ...
