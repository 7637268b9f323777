"""The follower's log lines about truncations."""

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.partition_lines import Level, PartitionEvent
from kafkad.core.replication.following.following_log import Truncation
from kafkad.core.replication.following.requests import FollowKind, FollowOrder
from kafkad.core.types import TopicPartition

_COMMITTED = "; committed records are lost, as after an unclean leader election or the loss of the leader's disk"


def truncation_event(
    at: TopicPartition, log: PartitionLog, truncation: Truncation, order: FollowOrder, leader: int
) -> tuple[PartitionEvent, str]:
    """The event and its partition, from the log before the truncation."""
    high_watermark = log.high_watermark.offset
    values = f"leader epoch {order.leader_epoch}, high watermark {high_watermark}"
    if order.kind == FollowKind.TRUNCATE:
        values += f", diverging in leader epoch {order.diverging_epoch}"
    subject = f"{at} from offset {log.log_end_offset} to {truncation.offset} ({values})"
    if truncation.is_full:
        event = PartitionEvent(Level.WARNING, "log truncated fully for", f"the log of leader {leader} starts later")
        return event, subject
    cause = f"leader {leader} has other records or none from this offset on"
    if truncation.offset < high_watermark:
        return PartitionEvent(Level.ERROR, "log truncated below its high watermark for", cause + _COMMITTED), subject
    return PartitionEvent(
        Level.INFO, "log truncated for", f"{cause}; the follower fetches the leader's records"
    ), subject
