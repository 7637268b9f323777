"""What the owner of a followed log does with an order of a fetcher.

Records are appended at once. A truncation is planned first and made later, when no reader has what goes. The high
watermark and the log start come from the leader; only a truncation lowers them.
"""

from typing import NamedTuple

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import HEADER_SIZE, has_valid_crc, read_header
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.removal import delete_records_before, truncate_fully_and_start_at, truncate_to
from kafkad.core.replication.following.requests import FollowKind, FollowOrder, FollowResult
from kafkad.core.replication.following.truncation import truncation_offset
from kafkad.core.types import NO_LEADER_EPOCH


class Truncation(NamedTuple):
    """Where a log has to end; `is_anew` when nothing of it stays and it begins there."""

    offset: int
    is_anew: bool

    def removes_from(self, log: PartitionLog) -> bool:
        """Whether records go, so that readers have to leave first."""
        return self.is_anew or self.offset < log.log_end_offset


def begin_with_batch(
    log: PartitionLog, order: FollowOrder, records: memoryview, now_ms: int
) -> tuple[FollowOrder, list[UnlinkFiles]]:
    """The order to append, made possible for an empty log that begins within the leader's first batch, as the leader's
    own may since DeleteRecords: it begins with that batch then. Nobody reads what goes, as it is empty.
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
    """Append what the leader sent, and learn its high watermark and log start; the error code, 0 as a rule.

    Raises `NoSpaceLeft` and `StorageFailed`; whole batches before the failed one are in the log then.
    """
    if order.offset != log.log_end_offset:
        # Asked for when the log had another end; the fetcher goes on from the present one.
        return ErrorCode.NONE
    error = ErrorCode.NONE
    if len(records):
        try:
            append_as_follower(log, records, leader_epoch=order.leader_epoch, now_ms=now_ms)
        except KafkaError as refused:
            error = refused.code
        else:
            if log.log_end_offset == order.offset:
                error = _why_nothing(records, order.leader_epoch)
    log.advance_high_watermark(min(order.high_watermark, log.log_end_offset))
    return error


def _why_nothing(records: memoryview, leader_epoch: int) -> ErrorCode:
    """Records of a newer leader epoch wait until this broker has heard of it; part of a batch is no use."""
    if len(records) >= HEADER_SIZE and read_header(records).partition_leader_epoch > leader_epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.CORRUPT_MESSAGE


def follow_log_start(log: PartitionLog, order: FollowOrder) -> list[UnlinkFiles]:
    """The leader's log starts later now: so does this one, as far as it is committed."""
    start = min(order.log_start_offset, log.high_watermark.offset)
    return delete_records_before(log, start) if start > log.log_start_offset else []


def planned_truncation(log: PartitionLog, order: FollowOrder) -> Truncation:
    """What an order to truncate comes to. One that removes no record is made, too: leader epochs may go."""
    if order.kind == FollowKind.RESTART:
        return Truncation(order.offset, True)
    offset = order.offset
    if order.kind == FollowKind.TRUNCATE:
        offset = truncation_offset(
            log.epochs, log.log_end_offset, diverging_epoch=order.diverging_epoch, diverging_end_offset=order.offset
        )
    return Truncation(offset, False)


def truncate(log: PartitionLog, truncation: Truncation, now_ms: int) -> list[UnlinkFiles]:
    """Nobody reads any more what goes."""
    if truncation.is_anew:
        return truncate_fully_and_start_at(log, truncation.offset, now_ms)
    return truncate_to(log, truncation.offset, now_ms)


def described(log: PartitionLog, order: FollowOrder, error: int = ErrorCode.NONE) -> FollowResult:
    """The state of the log, from which the fetcher goes on."""
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


def refused(order: FollowOrder, error: int) -> FollowResult:
    """There is no log to say anything about."""
    return FollowResult(order.kind, order.slot, order.short_id, order.leader_epoch, error, -1, NO_LEADER_EPOCH, -1)
