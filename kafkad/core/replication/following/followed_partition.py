"""One partition that this broker follows: what it waits for, and from where it is fetched next.

STARTING: the owner of the log has not said yet where the log ends. May become READY.
READY: the next Fetch asks for it, unless it pauses after an error. May become WRITING, TRUNCATING or OUT_OF_RANGE.
WRITING: the owner has an answer of the leader. Nothing is asked for before its records are in the log.
TRUNCATING: the owner truncates the log; readers may hold it up, so no other partition waits for it.
OUT_OF_RANGE: the leader does not have the log's end; it is asked where its own log ends, then where it begins.
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
    """Mutable; `slot`, `short_id` and `owner` say where its log is."""

    __slots__ = (
        "fetch_offset",
        "has_topic_id",
        "id",
        "is_asked",
        "is_in_sync",
        "is_throttled",
        "last_fetched_epoch",
        "leader_end",
        "leader_epoch",
        "leader_high_watermark",
        "log_start_offset",
        "name",
        "owner",
        "refusals",
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
        """It has all that the leader's high watermark covered at the last answer."""
        self.leader_high_watermark = -1
        self.has_topic_id = any(id[0])
        self.state = FollowState.STARTING
        self.is_asked = False
        """While STARTING: the owner was asked."""
        self.retry_ms = 0
        """Until then it pauses."""
        self.refusals = 0
        """How often in a row the leader has said that it does not lead, or in another epoch."""
        self.fetch_offset = 0
        self.last_fetched_epoch = NO_LEADER_EPOCH
        self.log_start_offset = 0
        self.leader_end: int | None = None
        """While OUT_OF_RANGE: where the leader's log ends, once known."""

    def restart(self, *, owner: int, leader_epoch: int) -> None:
        """Another leader epoch or owner: everything is asked anew."""
        self.owner = owner
        self.leader_epoch = leader_epoch
        self.state = FollowState.STARTING
        self.is_asked = self.is_in_sync = False
        self.retry_ms = self.refusals = 0
        self.leader_end = None

    @property
    def wants_start(self) -> bool:
        """Whether the owner has to be asked where the log ends."""
        return self.state is FollowState.STARTING and not self.is_asked

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
        answer: PartitionFetched | None = None,
        diverging_epoch: int = NO_LEADER_EPOCH,
    ) -> FollowOrder:
        records_at = length = 0
        high_watermark = log_start = -1
        if answer is not None:
            records_at, length = answer.records_at, answer.records_length
            high_watermark, log_start = answer.high_watermark, answer.log_start_offset
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
