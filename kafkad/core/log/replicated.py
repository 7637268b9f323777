"""How does a follower append? Whole batches, as the leader wrote them.

All batches for one segment are one write: many small batches would cost a follower many system calls.
`core/replication/following` has the fetches from the leader and the truncation.
"""

from collections.abc import Sequence

from kafkad.core.log.append_info import AppendInfo
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import CONTROL_FLAG, BatchHeader
from kafkad.core.log.records.validation import validate_follower
from kafkad.core.log.segments.segment import Segment
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import NoSpaceLeft
from kafkad.core.types import NO_TIMESTAMP


def append_as_follower(log: PartitionLog, records: memoryview, *, leader_epoch: int, now_ms: int) -> AppendInfo:
    """Append whole batches of the leader; offsets and leader epochs are in their headers.

    If the disk fails in between, earlier batches are in the log: the fetcher continues from its end.
    """
    first_offset = log.log_end_offset
    headers = validate_follower(records, log_end_offset=log.log_end_offset, leader_epoch=leader_epoch)
    position = number = 0
    while number < len(headers):
        epoch, base_offset = headers[number].partition_leader_epoch, headers[number].base_offset
        if epoch >= 0:
            log.assign_epoch(epoch, base_offset)
        run = _run(log, headers, number, now_ms)
        is_written = len(run) > 1 and _write(log, records, position, run)
        for header in run:
            batch = records[position : position + header.size]
            log.write_batch(batch, header, header.base_offset, now_ms, is_written=is_written)
            position += header.size
        number += len(run)
    if headers:
        first_offset = headers[0].base_offset
    return AppendInfo(first_offset, log.log_end_offset - 1, NO_TIMESTAMP, log.log_start_offset, False)


def _run(log: PartitionLog, headers: Sequence[BatchHeader], start: int, now_ms: int) -> Sequence[BatchHeader]:
    """The batches from `start` on that one write may contain: of one epoch, for one segment, without control batches,
    because these need their index entries first. At least one batch.
    """
    end, epoch = start, headers[start].partition_leader_epoch
    while end < len(headers) and headers[end].partition_leader_epoch == epoch:
        if headers[end].attributes & CONTROL_FLAG:
            break
        end += 1
    if end - start < 2:
        return headers[start : start + 1]
    segment = log.segments.active
    if not segment.is_prepared:
        segment.prepare_append()
    end = start + max(1, _count_before_roll(segment, headers[start:end], log.config, now_ms))
    return headers[start:end]


def _count_before_roll(segment: Segment, headers: Sequence[BatchHeader], config: LogConfig, now_ms: int) -> int:
    """The number of these batches that `segment` accepts before it may have to roll."""
    preceding_bytes, first = 0, NO_TIMESTAMP
    # Each batch may need an entry in both indexes; the last time entry is reserved for the roll.
    entries = min(segment.offset_index.free_entries, segment.time_index.free_entries - 1)
    for number, header in enumerate(headers):
        if number >= entries or segment.should_roll(
            config,
            size=header.size,
            max_timestamp=header.max_timestamp,
            last_offset=header.last_offset,
            now_ms=now_ms,
            preceding_bytes=preceding_bytes,
            preceding_timestamp=first,
        ):
            return number
        if segment.size + preceding_bytes == 0:
            first = header.max_timestamp
        preceding_bytes += header.size
    return len(headers)


def _write(log: PartitionLog, records: memoryview, position: int, run: Sequence[BatchHeader]) -> bool:
    """False if the disk has no space for all of them; there may be space for some."""
    segment, end = log.segments.active, position + sum(header.size for header in run)
    try:
        segment.log.write_at((records[position:end],), segment.size)
    except NoSpaceLeft:
        return False
    return True
