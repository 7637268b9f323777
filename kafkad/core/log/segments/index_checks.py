"""Are the indexes of a segment plausible?

For segments that loading does not recover. After a clean stop only the file sizes are checked, as an idle log must cost
nothing; otherwise also the newest entries. Implausible indexes are rebuilt.
"""

from collections.abc import Mapping

from kafkad.core.log.segments.index import OFFSET_ENTRY, TIME_ENTRY, entry_time, last_timestamp, used_entries
from kafkad.core.log.segments.layout import OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from kafkad.core.log.segments.segment import Segment
from kafkad.core.log.segments.transaction_index import ENTRY_SIZE, is_plausible
from kafkad.core.ports import SegmentStore

_FIRST_TIMESTAMP_BYTES = 8


def find_damaged_index(store: SegmentStore, segment: Segment, sizes: Mapping[str, int], *, checks_entries: bool) -> str:
    """The error of the offset index or the time index; empty if there is none. `sizes` are the file sizes."""
    for kind, entry in ((OFFSET_INDEX, OFFSET_ENTRY), (TIME_INDEX, TIME_ENTRY)):
        name = file_name(segment.base_offset, kind)
        if name not in sizes:
            return f"{name} does not exist"
        if sizes[name] % entry.size:
            return f"{name} has {sizes[name]} bytes, not a multiple of the entry size"
    return _find_damaged_entry(store, segment, sizes) if checks_entries else ""


def _find_damaged_entry(store: SegmentStore, segment: Segment, sizes: Mapping[str, int]) -> str:
    """Check that the newest entries are within the segment, and that timestamps ascend."""
    name = file_name(segment.base_offset, OFFSET_INDEX)
    if sizes[name]:
        offset, position = segment.offset_index.last
        if offset <= 0 or not 0 < position < segment.size:
            return f"{name} ends with offset {segment.base_offset + offset} at byte {position} of {segment.size}"
    name = file_name(segment.base_offset, TIME_INDEX)
    if sizes[name]:
        file = store.open(name)
        first = int.from_bytes(file.read_at(_FIRST_TIMESTAMP_BYTES, 0), "big", signed=True)
        last = last_timestamp(file, sizes[name], segment.base_offset)
        used = used_entries(file, sizes[name], TIME_ENTRY)
        file.close()
        if not used or last.timestamp < entry_time(first) or last.offset < segment.base_offset:
            return f"{name} begins with timestamp {first} and ends with {last.timestamp} at offset {last.offset}"
    return ""


def find_damaged_txn_index(store: SegmentStore, segment: Segment, sizes: Mapping[str, int], count: int) -> str:
    """The error of the transaction index; most segments have none. It had `count` entries when stored."""
    name = file_name(segment.base_offset, TXN_INDEX)
    if sizes.get(name, 0) < count * ENTRY_SIZE:
        found = f"{name} has {sizes[name]} bytes" if name in sizes else f"{name} does not exist"
        return f"{found}, but {count} transactions of the segment were aborted"
    if not sizes.get(name) or is_plausible(store.read(name), segment.base_offset):
        return ""
    return f"{name} has invalid entries"
