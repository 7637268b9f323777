"""Are the indexes of a segment plausible?

Loading asks this for segments that it does not recover. After a clean stop only the sizes of the files are checked,
since an idle log must cost nothing; otherwise the newest entries too. Implausible indexes are rebuilt.
"""

from collections.abc import Mapping

from kafkad.core.log.segments.index import OFFSET_ENTRY, TIME_ENTRY, known_time, last_timestamp, used_entries
from kafkad.core.log.segments.layout import OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from kafkad.core.log.segments.segment import Segment
from kafkad.core.log.segments.transaction_index import ENTRY_SIZE, is_plausible
from kafkad.core.ports import SegmentStore

_FIRST_TIMESTAMP_BYTES = 8


def find_damaged_index(store: SegmentStore, segment: Segment, sizes: Mapping[str, int], *, looks_inside: bool) -> str:
    """What is wrong with the offset index or the time index; empty if nothing is. `sizes` are the file sizes."""
    for kind, entry in ((OFFSET_INDEX, OFFSET_ENTRY), (TIME_INDEX, TIME_ENTRY)):
        name = file_name(segment.base_offset, kind)
        if name not in sizes:
            return f"there is no {name}"
        if sizes[name] % entry.size:
            return f"{name} has {sizes[name]} bytes, which is no number of entries"
    return _find_damaged_entry(store, segment, sizes) if looks_inside else ""


def _find_damaged_entry(store: SegmentStore, segment: Segment, sizes: Mapping[str, int]) -> str:
    """The newest entries must name batches of the segment, and times must ascend."""
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
        if not used or last.timestamp < known_time(first) or last.offset < segment.base_offset:
            return f"{name} begins with time {first} and ends with {last.timestamp} at offset {last.offset}"
    return ""


def find_damaged_txn_index(store: SegmentStore, segment: Segment, sizes: Mapping[str, int], count: int) -> str:
    """What is wrong with the index of aborted transactions; most segments have none. It had `count` entries once."""
    name = file_name(segment.base_offset, TXN_INDEX)
    if sizes.get(name, 0) < count * ENTRY_SIZE:
        found = f"{name} has {sizes[name]} bytes" if name in sizes else f"there is no {name}"
        return f"{found}, where {count} transactions were aborted"
    if not sizes.get(name) or is_plausible(store.read(name), segment.base_offset):
        return ""
    return f"{name} has entries that can't be right"
