"""Where are the bytes for a fetch, a timestamp or an epoch?

For processes that only read. A `LogReader` has the manifest of one generation; the caller passes the upper limit, from
the shared slot. A fetch gets whole batches of one segment, from the batch with its offset on; the bytes are sent from
the file. `ManifestStale`: files were removed or segments are missing in the manifest, so a new manifest is required.
`WrongIndex`: an index contradicts the log, and its owner rebuilds it. A log may have thousands of segments: few are
open at a time, and a search through all of them is made in steps.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.core.log.reading.aborted_transactions import AbortedLookup
from kafkad.core.log.reading.segment_facts import SegmentFacts
from kafkad.core.log.records.batch import BatchHeader
from kafkad.core.log.records.batch_scan import largest_timestamp, walk_batches
from kafkad.core.log.records.compression import READ_BYTES
from kafkad.core.log.records.record import TooManyRecords, iter_without_headers, record_timestamp
from kafkad.core.log.records.record_checks import READ_RECORDS
from kafkad.core.log.segments.index import (
    TimestampOffset,
    entry_time,
    first_entry_from,
    last_timestamp,
    lookup_timestamp,
)
from kafkad.core.log.segments.indexed_batches import check_time_entry, contradiction, find_from_entry
from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from kafkad.core.log.segments.manifest import LogManifest
from kafkad.core.log.segments.offset_lookup import OffsetLookup
from kafkad.core.ports import LogFile, SegmentStore
from kafkad.core.types import NO_TIMESTAMP, LogPosition

_CACHED_ENDS = 64
"""Consumers at the end of the log fetch from a recent end offset: its position needs no look-up."""


MAX_OPEN_SEGMENTS = 16
"""Open segments per reader: consumers read forward at a few positions of a log, however long it is."""
SEGMENTS_A_STEP = 64
"""Uncached segments that one step of a search by time may read."""


class SearchPaused(Exception):
    """One step of a search by time is complete; the next call continues."""


class ManifestStale(Exception):
    """The log's files have changed since this manifest; the owner has a newer manifest."""


class Extent(NamedTuple):
    """`length` bytes from byte `position` of the segment file `segment_base`."""

    segment_base: int
    position: int
    length: int


class FoundOffset(NamedTuple):
    """An offset found by timestamp, with the timestamp and leader epoch (-1: unknown) of its record."""

    timestamp: int
    offset: int
    leader_epoch: int


class _SegmentReader:
    """The three files of one segment, opened together."""

    __slots__ = ("_scanned_to", "base_offset", "index", "is_sealed", "log", "max_timestamp", "offsets", "timeindex")

    def __init__(self, store: SegmentStore, base_offset: int, *, is_sealed: bool) -> None:
        self.base_offset = base_offset
        self.is_sealed = is_sealed
        self.log: LogFile = store.open(file_name(base_offset, LOG))
        self.index: LogFile = store.open(file_name(base_offset, OFFSET_INDEX))
        self.timeindex: LogFile = store.open(file_name(base_offset, TIME_INDEX))
        self.offsets = OffsetLookup(self.index, base_offset)
        self.max_timestamp = NO_TIMESTAMP
        self._scanned_to = 0
        """`max_timestamp` covers the bytes below this one; batches without a timestamp are in no index."""

    def find(self, offset: int, end: int) -> tuple[int, BatchHeader] | None:
        """The first batch below byte `end` with `offset` or a later one. Raises `WrongIndex`."""
        return find_from_entry(self.log, self.base_offset, self.offsets.at_or_before(offset), end, offset)

    def position_of_time(self, entry: TimestampOffset) -> int:
        """The position of the batch of a time index entry. Raises `WrongIndex`."""
        near = self.offsets.at_or_before(entry.offset)
        return check_time_entry(self.log, self.base_offset, near, self.log.size(), entry)

    def largest_timestamp(self, end: int) -> int:
        """An upper bound of the timestamps below byte `end`: from the time index and the batches after its last entry.
        Raises `WrongIndex`.
        """
        if self._scanned_to < end:
            last = last_timestamp(self.timeindex, self.timeindex.size(), self.base_offset)
            if last.timestamp > self.max_timestamp:
                self._scanned_to = max(self._scanned_to, self.position_of_time(last))
                self.max_timestamp = last.timestamp
            if not (self.is_sealed and last.timestamp >= 0):
                found = largest_timestamp(self.log, min(self._scanned_to, end), end)
                self.max_timestamp = max(self.max_timestamp, found.timestamp)
            self._scanned_to = end
        return self.max_timestamp

    def close(self) -> None:
        for file in (self.log, self.index, self.timeindex):
            file.close()


class LogReader:
    """Reads the files of one partition in one generation; each generation has its own reader."""

    def __init__(self, store: SegmentStore, manifest: LogManifest, facts: SegmentFacts | None = None) -> None:
        self.store = store
        self._segments: dict[int, _SegmentReader] = {}
        """The most recently read segments, least recently read first."""
        self._epochs = LeaderEpochCache(manifest.epochs)
        self._ends: dict[int, tuple[int, int]] = {}
        self.facts = facts or SegmentFacts(manifest)
        self._aborted = AbortedLookup(store, self.facts, manifest.segment_bases[-1])
        self.manifest = manifest

    def with_store(self, store: SegmentStore) -> "LogReader":
        """A reader with its own open files, for another thread; both share `facts`."""
        return LogReader(store, self.manifest, self.facts)

    def locate(self, offset: int, upper: LogPosition, max_bytes: int, *, minimum_one_batch: bool = True) -> Extent:
        """The bytes for a fetch at `offset`; empty at `upper`. Raises `KafkaError`, `ManifestStale` and `WrongIndex`.

        Never beyond `upper` or the end of the segment with the offset. At most `max_bytes`, unless the first batch
        alone is larger and `minimum_one_batch` is set (T5, KIP-74).
        """
        if offset == upper.offset:
            return Extent(upper.segment_base, upper.position, 0)
        if offset > upper.offset or self.manifest.segment_number(offset) < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in the log")
        cached_end = self._ends.get(offset)
        if cached_end is not None and cached_end[0] == upper.segment_base:
            length = upper.position - cached_end[1]
            if length <= max_bytes:
                self._cache_end(upper)
                return Extent(upper.segment_base, cached_end[1], length)
        try:
            return self._locate_in_files(offset, upper, max_bytes, minimum_one_batch)
        except FileNotFoundError as error:
            raise ManifestStale(f"{error} is removed") from error

    def _locate_in_files(self, offset: int, upper: LogPosition, max_bytes: int, minimum_one_batch: bool) -> Extent:
        bases = self.manifest.segment_bases
        for number in range(self.manifest.segment_number(offset), len(bases)):
            base = bases[number]
            segment = self._segment(base)
            end = self._end(segment, upper)
            found = segment.find(offset, end)
            if found is not None:
                position, header = found
                if end - position <= max_bytes and base == upper.segment_base:
                    self._cache_end(upper)
                if header.size > max_bytes and not minimum_one_batch:
                    return Extent(base, position, 0)
                return Extent(base, position, min(end - position, max(max_bytes, header.size)))
            if base == upper.segment_base:
                return Extent(base, end, 0)
        raise ManifestStale(f"offset {offset} is in no segment of generation {self.manifest.generation}")

    def aborted(self, offset: int, extent: Extent, upper: LogPosition) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions for a fetch from `offset` that gets `extent`.
        Raises `ManifestStale`.
        """
        end = extent.position + extent.length
        try:
            bound = upper.offset
            if extent.segment_base != upper.segment_base or end < upper.position:
                bound = self._bound_after(extent.segment_base, end, upper)
            found = self._aborted.between(extent.segment_base, offset, bound)
        except FileNotFoundError as error:
            raise ManifestStale(f"{error} is removed") from error
        return [(aborted.producer_id, aborted.first_offset) for aborted in found]

    def _bound_after(self, base: int, position: int, upper: LogPosition) -> int:
        """An exclusive upper bound of the offsets before byte `position` of the segment."""
        segment = self._segment(base)
        entry = first_entry_from(segment.index, segment.index.size(), base, position)
        if entry is not None and not contradiction(segment.log.read_at, base, entry, segment.log.size()):
            return min(entry.offset, upper.offset)
        next_number = self.manifest.segment_number(base) + 1
        later = self.manifest.segment_bases[next_number : next_number + 1]
        return min(later[0], upper.offset) if later else upper.offset

    def log_file(self, segment_base: int) -> LogFile:
        """The file of an `Extent`, for `sendfile`."""
        return self._segment(segment_base).log

    def offset_for_timestamp(self, timestamp: int, upper: LogPosition, log_start: int = 0) -> FoundOffset | None:
        """The first record with at least this timestamp, from `log_start` to `upper` (ListOffsets).

        Raises `SearchPaused`.
        """
        try:
            for base, largest in self._largest_timestamps(upper):
                if largest >= timestamp:
                    found = self._first_at_or_after(base, upper, timestamp, log_start)
                    if found is not None:
                        return found
        except FileNotFoundError as error:
            raise ManifestStale(f"{error} is removed") from error
        return None

    def max_timestamp(self, upper: LogPosition) -> FoundOffset | None:
        """The first record with the largest timestamp below `upper` (ListOffsets -3).

        Without any timestamp the first record, as in Apache Kafka. As there, the record may be below the log start.
        Raises `SearchPaused`.
        """
        try:
            # `max` returns the first of equal timestamps.
            base, largest = max(self._largest_timestamps(upper), key=lambda row: row[1])
            return self._first_at_or_after(base, upper, largest, 0)
        except FileNotFoundError as error:
            raise ManifestStale(f"{error} is removed") from error

    def _largest_timestamps(self, upper: LogPosition) -> Iterator[tuple[int, int]]:
        """(segment, its largest timestamp below `upper`) of every segment; cached for most of them."""
        manifest, cached = self.manifest, self.facts.max_timestamps
        if not manifest.has_segment(upper.segment_base):
            raise ManifestStale(f"segment {upper.segment_base} is not in generation {manifest.generation}")
        read = 0
        for base in manifest.segment_bases[: manifest.segment_number(upper.segment_base) + 1]:
            largest = cached.get(base) if base != upper.segment_base else None
            if largest is None:
                if read == SEGMENTS_A_STEP:
                    raise SearchPaused
                read += 1
                segment = self._segment(base)
                largest = segment.largest_timestamp(self._end(segment, upper))
                if base != upper.segment_base:
                    cached[base] = largest
            yield base, largest

    def _first_at_or_after(self, base: int, upper: LogPosition, timestamp: int, log_start: int) -> FoundOffset | None:
        segment = self._segment(base)
        return _first_at_or_after(segment, self._end(segment, upper), timestamp, log_start)

    def epoch_end_offset(self, epoch: int, log_end_offset: int, leader_epoch: int) -> tuple[int, int]:
        """See `LeaderEpochCache.end_offset_as_leader`."""
        return self._epochs.end_offset_as_leader(epoch, log_end_offset, leader_epoch)

    def leader_epoch_at(self, offset: int) -> int:
        """The leader epoch of `offset`; -1 if unknown."""
        return self.manifest.leader_epoch_at(offset)

    def latest_epoch(self) -> int:
        epoch = self._epochs.latest_epoch
        return -1 if epoch is None else epoch

    def close(self) -> None:
        for segment in self._segments.values():
            segment.close()
        self._segments.clear()
        self._aborted.close()

    def _segment(self, base: int) -> _SegmentReader:
        segment = self._segments.pop(base, None)
        if segment is None:
            if not self.manifest.has_segment(base):
                raise ManifestStale(f"segment {base} is not in generation {self.manifest.generation}")
            if len(self._segments) == MAX_OPEN_SEGMENTS:
                self._segments.pop(next(iter(self._segments))).close()
            segment = _SegmentReader(self.store, base, is_sealed=self.manifest.is_sealed(base))
        self._segments[base] = segment
        return segment

    def _end(self, segment: _SegmentReader, upper: LogPosition) -> int:
        return upper.position if segment.base_offset == upper.segment_base else segment.log.size()

    def _cache_end(self, upper: LogPosition) -> None:
        ends = self._ends
        if upper.offset not in ends:
            if len(ends) >= _CACHED_ENDS:
                del ends[next(iter(ends))]
            ends[upper.offset] = (upper.segment_base, upper.position)


def _first_at_or_after(segment: _SegmentReader, end: int, timestamp: int, log_start: int) -> FoundOffset | None:
    """The first record ≥ `timestamp` at or after `log_start`: by both indexes, headers, then the records of a batch."""
    times = lookup_timestamp(segment.timeindex, segment.timeindex.size(), segment.base_offset, timestamp)
    start = segment.position_of_time(times) if entry_time(times.timestamp) >= 0 else 0
    if log_start > times.offset:
        found_start = segment.find(log_start, end)
        start = end if found_start is None else max(start, found_start[0])
    for position, header in walk_batches(segment.log.read_at, min(start, end), end):
        if header.max_timestamp < timestamp or header.last_offset < log_start:
            continue
        found = _first_record(segment.log, position, header, timestamp, log_start)
        if found is not None:
            return found
    return None


def _first_record(
    log: LogFile, position: int, header: BatchHeader, timestamp: int, log_start: int
) -> FoundOffset | None:
    """For a batch with too many records, its first offset: a reader from there misses no record."""
    whole = FoundOffset(header.max_timestamp, max(header.base_offset, log_start), header.partition_leader_epoch)
    if header.records_count > READ_RECORDS:
        return whole
    batch = memoryview(log.read_at(header.size, position))
    try:
        for record in iter_without_headers(batch, max_bytes=READ_BYTES):
            offset = header.base_offset + record.offset_delta
            record_time = record_timestamp(header, record)
            if record_time >= timestamp and offset >= log_start:
                return FoundOffset(record_time, offset, header.partition_leader_epoch)
    except TooManyRecords:
        return whole
    return None
