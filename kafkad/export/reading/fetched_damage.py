"""A batch in a Fetch response that is not as it was written: may an export go on behind it?

Only its own header says where it ends, and a wrong end would hide what follows. So the header is believed where it
agrees with itself, which means as many records as offsets, and with what is around it: it begins where the batch before
it has ended, and where it ends, in bytes and in offsets, the next one begins, or the log ends. Compaction leaves gaps
in which no one can tell; the segment files can.
"""

from collections.abc import Callable

from kafkad.client.records import FetchedPartition
from kafkad.core.log.records.batch import HEADER_SIZE, CorruptBatch, has_valid_crc, read_header_within, read_size
from kafkad.export.reading.damage import Damaged

LARGEST_FETCH = (1 << 31) - 1

Ask = Callable[[int, int], FetchedPartition]
"""What the broker has at an offset, in at most so many bytes."""


def set_aside(
    ask: Ask, start: int, error: CorruptBatch, fetch_bytes: int, *, is_committed: bool, may_begin_before: bool
) -> Damaged:
    """The damaged batch with the offset `start`, of which `error` tells. Raises `CorruptBatch`."""
    answer = _with_next(ask, start, fetch_bytes)
    records = answer.records
    first = read_header_within(records[:HEADER_SIZE], 0, len(records))
    begins_there = first.base_offset == start or (may_begin_before and 0 <= first.base_offset < start)
    if not begins_there or first.next_offset <= start or has_valid_crc(memoryview(records), 0, first):
        raise error
    end = _end_of_damage(records, first.base_offset)
    if end is not None:
        known = answer.last_stable_offset if is_committed else answer.high_watermark
        if end > known or (end < known and not _begins_at(ask, end, fetch_bytes)):
            raise CorruptBatch(0, f"{error.reason}, and its end is unknown")
    return Damaged(
        first.base_offset, first.next_offset, records[: first.size], f"as the broker sent it: {error.reason}"
    )


def _end_of_damage(records: bytes, start: int) -> int | None:
    """None: an intact batch follows. Otherwise the offset with which the damaged ones end, as they say."""
    at, offset = 0, start
    while at < len(records):
        header = read_header_within(records[at : at + HEADER_SIZE], at, len(records))
        if header.base_offset != offset:
            raise CorruptBatch(0, f"what is behind offset {start} begins at {header.base_offset}, not at {offset}")
        if has_valid_crc(memoryview(records), at, header):
            return None
        if not 0 < header.records_count == header.last_offset_delta + 1:
            raise CorruptBatch(0, f"{header.records_count} records for {header.last_offset_delta + 1} offsets")
        at, offset = at + header.size, header.next_offset
    return offset


def _begins_at(ask: Ask, offset: int, fetch_bytes: int) -> bool:
    """Whether an intact batch does."""
    records = _with_next(ask, offset, fetch_bytes).records
    header = read_header_within(records[:HEADER_SIZE], 0, len(records))
    return header.base_offset == offset and has_valid_crc(memoryview(records), 0, header)


def _with_next(ask: Ask, offset: int, fetch_bytes: int) -> FetchedPartition:
    """The first batch whole, and the next one, if their lengths are right and there is one."""
    asked = fetch_bytes
    while True:
        answer = ask(offset, asked)
        needed = _size(answer.records, 0)
        if needed <= len(answer.records):
            needed += _size(answer.records, needed)
        if needed <= max(asked, len(answer.records)):
            return answer
        if needed > LARGEST_FETCH:
            raise CorruptBatch(0, f"batches of {needed} bytes")
        asked = needed


def _size(records: bytes, at: int) -> int:
    """That of the batch at `at`, as it says; what a header takes, where there is none."""
    return max(read_size(records, at), HEADER_SIZE) if len(records) - at >= HEADER_SIZE else HEADER_SIZE
