"""Decide whether an export may continue after a damaged batch in a Fetch response.

Only the header of the batch has its end, and a wrong end would hide the following records. So the header is used only
if it is consistent: its record count equals its number of offsets, it begins at the end of the previous batch, and at
its end, in bytes and offsets, the next batch begins or the log ends. In the gaps of a compacted log this can't be
checked; there an export needs the segment files.
"""

from collections.abc import Callable

from kafkad.client.records import FetchedPartition
from kafkad.core.log.records.batch import HEADER_SIZE, CorruptBatch, has_valid_crc, read_header_within, read_size
from kafkad_lakehouse.export.reading.damage import Damaged

LARGEST_FETCH = (1 << 31) - 1

FetchAt = Callable[[int, int], FetchedPartition]
"""Fetches from an offset, with a maximum number of bytes."""


def set_aside(
    fetch_at: FetchAt, start: int, error: CorruptBatch, fetch_bytes: int, *, is_committed: bool, may_begin_before: bool
) -> Damaged:
    """The damaged batch with the offset `start` and the damage `error`. Raises `CorruptBatch` if its end is unknown."""
    response = _with_next(fetch_at, start, fetch_bytes)
    records = response.records
    first = read_header_within(records[:HEADER_SIZE], 0, len(records))
    begins_there = first.base_offset == start or (may_begin_before and 0 <= first.base_offset < start)
    if not begins_there or first.next_offset <= start or has_valid_crc(memoryview(records), 0, first):
        raise error
    end = _end_of_damage(records, first.base_offset)
    if end is not None:
        known = response.last_stable_offset if is_committed else response.high_watermark
        if end > known or (end < known and not _begins_at(fetch_at, end, fetch_bytes)):
            raise CorruptBatch(0, f"{error.reason}, and its end is unknown")
    return Damaged(
        first.base_offset, first.next_offset, records[: first.size], f"as the broker sent it: {error.reason}"
    )


def _end_of_damage(records: bytes, start: int) -> int | None:
    """The end offset of the damaged batches according to their headers; None if an intact batch follows."""
    at, offset = 0, start
    while at < len(records):
        header = read_header_within(records[at : at + HEADER_SIZE], at, len(records))
        if header.base_offset != offset:
            raise CorruptBatch(0, f"the batch after offset {start} begins at {header.base_offset}, not at {offset}")
        if has_valid_crc(memoryview(records), at, header):
            return None
        if not 0 < header.records_count == header.last_offset_delta + 1:
            raise CorruptBatch(0, f"{header.records_count} records for {header.last_offset_delta + 1} offsets")
        at, offset = at + header.size, header.next_offset
    return offset


def _begins_at(fetch_at: FetchAt, offset: int, fetch_bytes: int) -> bool:
    """Whether an intact batch begins at `offset`."""
    records = _with_next(fetch_at, offset, fetch_bytes).records
    header = read_header_within(records[:HEADER_SIZE], 0, len(records))
    return header.base_offset == offset and has_valid_crc(memoryview(records), 0, header)


def _with_next(fetch_at: FetchAt, offset: int, fetch_bytes: int) -> FetchedPartition:
    """Fetch the complete first batch, and the next one if it exists, as long as their lengths are correct."""
    max_bytes = fetch_bytes
    while True:
        response = fetch_at(offset, max_bytes)
        required = _size(response.records, 0)
        if required <= len(response.records):
            required += _size(response.records, required)
        if required <= max(max_bytes, len(response.records)):
            return response
        if required > LARGEST_FETCH:
            raise CorruptBatch(0, f"batches of {required} bytes")
        max_bytes = required


def _size(records: bytes, at: int) -> int:
    """The size in the header of the batch at `at`; without a complete header, the size of a header."""
    return max(read_size(records, at), HEADER_SIZE) if len(records) - at >= HEADER_SIZE else HEADER_SIZE
