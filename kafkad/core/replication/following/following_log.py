"""How the owner of a followed log performs a fetcher's orders.

Records are appended at once. A truncation is planned first, and performed when no reader uses the removed records. The
high watermark and the log start offset come from the leader; only a truncation lowers them.
"""

from typing import NamedTuple

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import HEADER_SIZE, has_valid_crc, read_header
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.removal import delete_records_before, truncate_fully_and_start_at, truncate_to
from kafkad.core.partition_lines import Level, PartitionEvent
from kafkad.core.replication.following.requests import FollowKind, FollowOrder, FollowResult
from kafkad.core.replication.following.truncation import truncation_offset
from kafkad.core.types import NO_LEADER_EPOCH, TopicPartition


class Truncation(NamedTuple):
    """A truncation to `offset`. `is_full`: all records are removed, and the log restarts at `offset`."""

    offset: int
    is_full: bool

    def removes_from(self, log: PartitionLog) -> bool:
        """Whether records are removed, so that readers have to stop first."""
        return self.is_full or self.offset < log.log_end_offset


def begin_with_batch(
    log: PartitionLog, order: FollowOrder, records: memoryview, now_ms: int
) -> tuple[FollowOrder, list[UnlinkFiles]]:
    """Prepare an empty log whose end is inside the leader's first batch, as after DeleteRecords at the leader: restart
    it at the start of this batch. Returns the order with this offset. No reader uses the removed files.
    """
    is_empty = log.log_start_offset == log.log_end_offset == log.segments.active.base_offset
    if not is_empty or order.offset != log.log_end_offset or len(records) < HEADER_SIZE:
        return order, []
    first = read_header(records)
    is_within = 0 <= first.base_offset < log.log_end_offset <= first.last_offset
    if not is_within or first.size > len(records) or not has_valid_crc(records, 0, first):
        return order, []
    return order._replace(offset=first.base_offset), truncate_fully_and_start_at(log, first.base_offset, now_ms)


def append_fetched(log: PartitionLog, order: FollowOrder, records: memoryview, now_ms: int) -> int:
    """Append the leader's records, and take over its high watermark and log start offset. Returns the error code.

    Raises `NoSpaceLeft` and `StorageFailed`; then whole batches before the failed one are in the log.
    """
    if order.offset != log.log_end_offset:
        # The log end has changed since the request; the fetcher continues from the present one.
        return ErrorCode.NONE
    error = ErrorCode.NONE
    if len(records):
        try:
            append_as_follower(log, records, leader_epoch=order.leader_epoch, now_ms=now_ms)
        except KafkaError as rejected:
            error = rejected.code
        else:
            if log.log_end_offset == order.offset:
                error = _error_without_append(records, order.leader_epoch)
    log.advance_high_watermark(min(order.high_watermark, log.log_end_offset))
    return error


def _error_without_append(records: memoryview, leader_epoch: int) -> ErrorCode:
    """Records of a newer leader epoch wait for the metadata of this epoch; an incomplete batch is corrupt."""
    if len(records) >= HEADER_SIZE and read_header(records).partition_leader_epoch > leader_epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.CORRUPT_MESSAGE


def follow_log_start(log: PartitionLog, order: FollowOrder) -> list[UnlinkFiles]:
    """Advance the log start offset to the leader's, at most to the high watermark."""
    start = min(order.log_start_offset, log.high_watermark.offset)
    return delete_records_before(log, start) if start > log.log_start_offset else []


def planned_truncation(log: PartitionLog, order: FollowOrder) -> Truncation:
    """The truncation of an order. It is performed even if it removes no records: leader epochs may be removed."""
    if order.kind == FollowKind.RESTART:
        return Truncation(order.offset, True)
    offset = order.offset
    if order.kind == FollowKind.TRUNCATE:
        offset = truncation_offset(
            log.epochs, log.log_end_offset, diverging_epoch=order.diverging_epoch, diverging_end_offset=order.offset
        )
    return Truncation(offset, False)


def truncate(log: PartitionLog, truncation: Truncation, now_ms: int) -> list[UnlinkFiles]:
    """Truncate the log; no reader uses the removed records."""
    if truncation.is_full:
        return truncate_fully_and_start_at(log, truncation.offset, now_ms)
    return truncate_to(log, truncation.offset, now_ms)


def result_of(log: PartitionLog, order: FollowOrder, error: int = ErrorCode.NONE) -> FollowResult:
    """The state of the log, from which the fetcher continues."""
    latest = log.epochs.latest_epoch
    return FollowResult(
        order.kind,
        order.slot,
        order.short_id,
        order.leader_epoch,
        error,
        log.log_end_offset,
        NO_LEADER_EPOCH if latest is None else latest,
        log.log_start_offset,
    )


def failed_result(order: FollowOrder, error: int) -> FollowResult:
    """The result when there is no log."""
    return FollowResult(order.kind, order.slot, order.short_id, order.leader_epoch, error, -1, NO_LEADER_EPOCH, -1)


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
