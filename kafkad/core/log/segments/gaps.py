"""Are there offsets without records between a sealed segment and the next one? Then its `.log` was cut between batches.

Nothing else shows that: each batch that is left is whole. Where a segment ends is found from its last index entry on,
so little is read. Logs that are compacted have gaps of their own, and are left out.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.log.segments.segment import Segment
from kafkad.core.types import NOT_CLEANED


class Gap(NamedTuple):
    """The records from `start` to before `end` are not in the log; `name` is the file that lacks them."""

    name: str
    start: int
    end: int


def find_gaps(log: PartitionLog) -> Iterator[Gap | None]:
    """For each segment that was not looked at before, the gap behind it or None. Raises `StorageFailed`."""
    if log.config.is_compacted or log.cleaned_offset != NOT_CLEANED:
        return
    for segment in tuple(log.segments)[:-1]:
        if segment.end_was_compared:
            continue
        following = log.segments.after(segment)
        if following is not None:
            segment.end_was_compared = True
            yield _gap(log, segment, following.base_offset)


def _gap(log: PartitionLog, segment: Segment, end: int) -> Gap | None:
    try:
        start = max(segment.next_offset(), log.log_start_offset)
    except CorruptBatch:
        # A damaged batch is named to those who read it.
        return None
    return Gap(file_name(segment.base_offset, LOG), start, end) if start < end else None
