"""What is in a log, found the long way round: every byte of every segment, without indexes."""

from kafkad.core.log.records.batch import has_valid_crc
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.segments.index import OFFSET_ENTRY, TIME_ENTRY, used_entries
from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, TIME_INDEX, file_name, parse_file_name
from kafkad.core.ports import SegmentStore


def batch_offsets(store: SegmentStore, log_end: int) -> list[tuple[int, int]]:
    """(first, last offset) of each batch below `log_end`, in file order; every checksum is verified."""
    found: list[tuple[int, int]] = []
    for base in segment_bases(store):
        file = store.open(file_name(base, LOG))
        for position, header in walk_batches(file.read_at, 0, file.size()):
            if header.base_offset >= log_end:
                break
            content = memoryview(file.read_at(header.size, position))
            assert has_valid_crc(content, 0, header)
            found.append((header.base_offset, header.last_offset))
    return found


def segment_bases(store: SegmentStore) -> list[int]:
    parsed = (parse_file_name(name) for name in store.sizes())
    return sorted(name.base_offset for name in parsed if name and name.kind == LOG and not name.suffix)


def check_indexes(store: SegmentStore) -> int:
    """Each index entry points at the batch that it names; returns how many there are."""
    count = 0
    for base in segment_bases(store):
        log = store.open(file_name(base, LOG))
        by_position = dict(walk_batches(log.read_at, 0, log.size()))
        by_last_offset = {header.last_offset: header for header in by_position.values()}
        offsets = store.open(file_name(base, OFFSET_INDEX))
        for number in range(used_entries(offsets, offsets.size(), OFFSET_ENTRY)):
            relative, position = OFFSET_ENTRY.unpack(offsets.read_at(8, number * 8))
            assert by_position[position].last_offset == base + relative
            count += 1
        times = store.open(file_name(base, TIME_INDEX))
        newest = -1
        for number in range(used_entries(times, times.size(), TIME_ENTRY)):
            timestamp, relative = TIME_ENTRY.unpack(times.read_at(12, number * 12))
            assert by_last_offset[base + relative].max_timestamp == timestamp > newest
            newest = timestamp
            count += 1
    return count
