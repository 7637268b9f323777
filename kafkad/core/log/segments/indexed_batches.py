"""Does an index entry lead to its batch?

Indexes are derived from the log and not read at loading: a look-up detects a flipped bit. An offset entry is valid if a
batch with a base offset at or below its offset is at its position: Apache Kafka writes the last offset of an append of
several batches, with the position of the first. A time entry is valid if the batch with its offset has its timestamp as
the largest one.
"""

from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header_within
from kafkad.core.log.records.batch_scan import ReadAt, find_batch, walk_batches
from kafkad.core.log.segments.index import OffsetPosition, TimestampOffset, entry_time
from kafkad.core.ports import LogFile


class WrongIndex(Exception):
    """An index of segment `base_offset` contradicts the log, or the log is damaged at byte `position`."""

    def __init__(self, base_offset: int, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.base_offset = base_offset
        self.position = position
        self.reason = reason


def find_from_entry(
    log: LogFile, base_offset: int, near: OffsetPosition, end: int, offset: int
) -> tuple[int, BatchHeader] | None:
    """The first batch with `offset` or a later one, from the entry `near` to byte `end`. Raises `WrongIndex`."""
    position = near.position
    if position == 0:
        return find_batch(log, 0, end, offset)
    is_below_end = position < end
    batches = walk_batches(log.read_at, position, end if is_below_end else log.size())
    try:
        found = next(batches, None) if position > 0 else None
    except CorruptBatch as damage:
        raise WrongIndex(base_offset, position, damage.reason) from damage
    if found is None or not base_offset <= found[1].base_offset <= near.offset:
        raise WrongIndex(base_offset, position, _wrong_offset(base_offset, near, found[1] if found else None))
    if not is_below_end:
        return None
    while found is not None and found[1].last_offset < offset:
        found = next(batches, None)
    return found


def contradiction(read_at: ReadAt, base_offset: int, entry: OffsetPosition, end: int) -> str:
    """The error of an offset entry or its batch; empty if the entry is valid."""
    try:
        header = read_header_within(read_at(HEADER_SIZE, max(entry.position, 0)), entry.position, end)
    except CorruptBatch as damage:
        return f"the index has offset {entry.offset} at byte {entry.position}: {damage.reason}"
    return _wrong_offset(base_offset, entry, header)


def _wrong_offset(base_offset: int, entry: OffsetPosition, header: BatchHeader | None) -> str:
    if header is not None and entry.position >= 0 and base_offset <= header.base_offset <= entry.offset:
        return ""
    found = "there is no batch" if header is None else f"a batch from offset {header.base_offset} on starts"
    return f"the index has offset {entry.offset} at byte {entry.position}, where {found}"


def check_time_entry(log: LogFile, base_offset: int, near: OffsetPosition, end: int, entry: TimestampOffset) -> int:
    """Return the position of the batch of a time entry; `near` is the offset entry below it. Raises `WrongIndex`."""
    try:
        found = find_from_entry(log, base_offset, near, end, entry.offset)
    except CorruptBatch as damage:
        raise WrongIndex(base_offset, damage.position, damage.reason) from damage
    if found is None or not is_time_of(found[1], entry):
        position = near.position if found is None else found[0]
        timestamp = None if found is None else found[1].largest_timestamp
        error = f"the time index has timestamp {entry.timestamp} for offset {entry.offset}, the log has {timestamp}"
        raise WrongIndex(base_offset, position, error)
    return found[0]


def is_time_of(header: BatchHeader, entry: TimestampOffset) -> bool:
    """Whether the entry has an offset of this batch, and its largest timestamp."""
    contains = header.base_offset <= entry.offset <= header.last_offset
    return contains and header.largest_timestamp == entry_time(entry.timestamp)
