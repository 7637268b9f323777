"""One partition that this broker follows: its state, and the offset of the next fetch.

STARTING: the owner has not reported the log end offset yet. Next: READY.
READY: part of the next Fetch, unless it pauses after an error. Next: WRITING, TRUNCATING or OUT_OF_RANGE.
WRITING: the owner appends a response's records. The partition is not fetched until they are in the log.
TRUNCATING: the owner truncates the log. Readers may delay this, so other partitions do not wait for it.
OUT_OF_RANGE: the leader does not have the log's end offset; requests its log end offset, then its log start offset.
"""

from enum import Enum, auto

from kafkad.core.replication.following.requests import (
    FollowKind,
    FollowOrder,
    PartitionFetched,
    PartitionId,
    PartitionToFetch,
)
from kafkad.core.types import NO_LEADER_EPOCH, TopicPartition


class FollowState(Enum):
    STARTING = auto()
    READY = auto()
    WRITING = auto()
    TRUNCATING = auto()
    OUT_OF_RANGE = auto()


class FollowedPartition:
    """Mutable; `slot`, `short_id` and `owner` locate its log."""

    __slots__ = (
        "fetch_offset",
        "has_topic_id",
        "id",
        "is_in_sync",
        "is_order_sent",
        "is_throttled",
        "last_fetched_epoch",
        "leader_end",
        "leader_epoch",
        "leader_high_watermark",
        "log_start_offset",
        "name",
        "owner",
        "rejections",
        "retry_ms",
        "short_id",
        "slot",
        "state",
    )

    def __init__(
        self,
        id: PartitionId,
        name: TopicPartition,
        *,
        slot: int,
        short_id: int,
        owner: int,
        leader_epoch: int,
        is_throttled: bool = False,
    ) -> None:
        self.id = id
        self.name = name
        self.slot = slot
        self.short_id = short_id
        self.owner = owner
        self.leader_epoch = leader_epoch
        self.is_throttled = is_throttled
        self.is_in_sync = False
        """At the last response it had all records below the leader's high watermark."""
        self.leader_high_watermark = -1
        self.has_topic_id = any(id[0])
        self.state = FollowState.STARTING
        self.is_order_sent = False
        """While STARTING: the order to report the log end is sent."""
        self.retry_ms = 0
        """The end of its pause."""
        self.rejections = 0
        """How often in a row the leader has rejected the partition with a transient error."""
        self.fetch_offset = 0
        self.last_fetched_epoch = NO_LEADER_EPOCH
        self.log_start_offset = 0
        self.leader_end: int | None = None
        """While OUT_OF_RANGE: the leader's log end offset, when received."""

    def restart(self, *, owner: int, leader_epoch: int) -> None:
        """Start again, in another leader epoch or with another owner."""
        self.owner = owner
        self.leader_epoch = leader_epoch
        self.state = FollowState.STARTING
        self.is_order_sent = self.is_in_sync = False
        self.retry_ms = self.rejections = 0
        self.leader_end = None

    @property
    def needs_log_end(self) -> bool:
        """Whether to order the owner to report the log end offset."""
        return self.state is FollowState.STARTING and not self.is_order_sent

    def row(self) -> PartitionToFetch:
        return PartitionToFetch(
            self.id,
            self.name,
            self.leader_epoch,
            self.fetch_offset,
            self.last_fetched_epoch,
            self.log_start_offset,
        )

    def order(
        self,
        kind: FollowKind,
        offset: int,
        response: PartitionFetched | None = None,
        diverging_epoch: int = NO_LEADER_EPOCH,
    ) -> FollowOrder:
        records_at = length = 0
        high_watermark = log_start = -1
        if response is not None:
            records_at, length = response.records_at, response.records_length
            high_watermark, log_start = response.high_watermark, response.log_start_offset
        return FollowOrder(
            kind,
            self.slot,
            self.short_id,
            self.leader_epoch,
            offset,
            records_at,
            length,
            high_watermark,
            log_start,
            diverging_epoch,
        )
