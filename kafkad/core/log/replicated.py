"""What does a follower append? Whole batches, as the leader wrote them.

`core/replication/following` has what is asked of the leader, and where the log is truncated.
"""

from kafkad.core.log.append_info import AppendInfo
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.validation import validate_follower
from kafkad.core.types import NO_TIMESTAMP


def append_as_follower(log: PartitionLog, records: memoryview, *, leader_epoch: int, now_ms: int) -> AppendInfo:
    """Append whole batches as a leader wrote them: offsets and epochs stand in their headers.

    When the disk fails in between, the batches before are in the log: the fetcher goes on from its end.
    """
    first_offset = log.log_end_offset
    position = 0
    headers = validate_follower(records, log_end_offset=log.log_end_offset, leader_epoch=leader_epoch)
    for header in headers:
        if header.partition_leader_epoch >= 0:
            log.assign_epoch(header.partition_leader_epoch, header.base_offset)
        batch = records[position : position + header.size]
        log.write_batch(batch, header, header.base_offset, now_ms)
        position += header.size
    if headers:
        first_offset = headers[0].base_offset
    return AppendInfo(first_offset, log.log_end_offset - 1, NO_TIMESTAMP, log.log_start_offset, False)
