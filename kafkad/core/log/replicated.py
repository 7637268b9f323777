"""What does a follower append? Whole batches, as the leader wrote them.

What goes into one segment is one write, however many batches it is: a leader with many small ones would keep its
followers busy with system calls. `core/replication/following` has what is asked of the leader, and where the log is
truncated.
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
    """Append whole batches as a leader wrote them: offsets and epochs stand in their headers.

    When the disk fails in between, the batches before are in the log: the fetcher goes on from its end.
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
    """The batches from `start` on that may be written together: of one epoch, into one segment, and no control batches,
    which need their index entries first. At least one.
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
    end = start + max(1, _fitting(segment, headers[start:end], log.config, now_ms))
    return headers[start:end]


def _fitting(segment: Segment, headers: Sequence[BatchHeader], config: LogConfig, now_ms: int) -> int:
    """How many of these batches, one behind the other, it takes before it may have to roll."""
    ahead, first = 0, NO_TIMESTAMP
    # Each may need an entry in both indexes; the last time entry is for the roll.
    entries = min(segment.offset_index.room, segment.time_index.room - 1)
    for number, header in enumerate(headers):
        if number >= entries or segment.should_roll(
            config,
            size=header.size,
            max_timestamp=header.max_timestamp,
            last_offset=header.last_offset,
            now_ms=now_ms,
            ahead=ahead,
            first_ahead=first,
        ):
            return number
        if segment.size + ahead == 0:
            first = header.max_timestamp
        ahead += header.size
    return len(headers)


def _write(log: PartitionLog, records: memoryview, position: int, run: Sequence[BatchHeader]) -> bool:
    """False: there is no room for all of them. There may be for some, one after the other."""
    segment, end = log.segments.active, position + sum(header.size for header in run)
    try:
        segment.log.write_at((records[position:end],), segment.size)
    except NoSpaceLeft:
        return False
    return True
