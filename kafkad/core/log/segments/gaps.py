"""Are there missing offsets between a sealed segment and the next one? Then its `.log` was truncated between batches.

Nothing else detects that, as all remaining batches are whole. The end of a segment is found from its last index entry,
so little is read. Compacted logs have gaps anyway and are skipped.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.log.segments.segment import Segment
from kafkad.core.types import NOT_CLEANED


class Gap(NamedTuple):
    """The records from `start` to before `end` are missing in the file `name`."""

    name: str
    start: int
    end: int


def find_gaps(log: PartitionLog) -> Iterator[Gap | None]:
    """For each unchecked segment, the gap after it or None. Raises `StorageFailed`."""
    if log.config.is_compacted or log.cleaned_offset != NOT_CLEANED:
        return
    for segment in tuple(log.segments)[:-1]:
        if segment.is_end_checked:
            continue
        next_segment = log.segments.after(segment)
        if next_segment is not None:
            segment.is_end_checked = True
            yield _gap(log, segment, next_segment.base_offset)


def _gap(log: PartitionLog, segment: Segment, end: int) -> Gap | None:
    try:
        start = max(segment.next_offset(), log.log_start_offset)
    except CorruptBatch:
        # Readers report a damaged batch.
        return None
    return Gap(file_name(segment.base_offset, LOG), start, end) if start < end else None
