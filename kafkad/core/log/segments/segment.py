"""One segment for its owner: its end, its index entries, whether it is full.

Bytes are in the file before this object counts them. Index entries follow Apache Kafka's rule: after more than
index.interval.bytes, the next batch adds one offset entry (its last offset and its position) and one time entry with
the largest timestamp so far. A segment loaded from disk reads its indexes on first use.
"""

from struct import Struct

from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.records.batch_scan import walk_intact
from kafkad.core.log.segments.index import (
    LARGEST_RELATIVE_OFFSET,
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexAppender,
    entries_below,
    used_entries,
)
from kafkad.core.log.segments.index_entries import IndexEntries
from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, PRODUCER_SNAPSHOT, TIME_INDEX, TXN_INDEX, file_name
from kafkad.core.log.segments.owner_lookup import OwnerLookup
from kafkad.core.log.segments.transaction_index import TransactionIndex
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import LogFile, NoSpaceLeft, SegmentStore
from kafkad.core.types import NO_TIMESTAMP


class Segment:
    """The writer's state of one segment; mutable and slotted, since each append changes it."""

    __slots__ = (
        "_index_interval_bytes",
        "_index_sizes",
        "_max_index_bytes",
        "_offsets",
        "_store",
        "_times",
        "aborted",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "first_timestamp",
        "is_end_checked",
        "is_index_checked",
        "is_index_full",
        "is_prepared",
        "log",
        "max_timestamp",
        "offset_of_max_timestamp",
        "roll_jitter",
        "size",
        "wrong_index",
    )

    def __init__(
        self,
        store: SegmentStore,
        config: LogConfig,
        base_offset: int,
        *,
        size: int,
        now_ms: int,
        roll_jitter: float = 0.0,
        index_sizes: tuple[int, int] = (0, 0),
        txn_index_size: int | None = None,
    ) -> None:
        self._store = store
        self._index_interval_bytes = config.index_interval_bytes
        self._max_index_bytes = config.segment_index_bytes
        self._index_sizes = index_sizes
        self._offsets: IndexAppender | None = None
        self._times: IndexAppender | None = None
        self.aborted = TransactionIndex(store, base_offset, txn_index_size)
        self.base_offset = base_offset
        self.size = size
        self.log: LogFile = store.open(file_name(base_offset, LOG))
        self.created_ms = now_ms
        self.roll_jitter = roll_jitter
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.bytes_since_index_entry = 0
        self.is_index_full = False
        self.is_prepared = size == 0
        self.wrong_index = ""
        """The error that a look-up found in an index; the index must be rebuilt (`index_repair`)."""
        self.is_index_checked = False
        """All entries were compared with the log and are valid."""
        self.is_end_checked = False
        """The end was compared with the base offset of the next segment (`gaps`)."""

    @classmethod
    def create(
        cls, store: SegmentStore, config: LogConfig, base_offset: int, *, now_ms: int, roll_jitter: float = 0.0
    ) -> "Segment":
        """An empty segment with its three files."""
        for kind in (LOG, OFFSET_INDEX, TIME_INDEX):
            store.open(file_name(base_offset, kind), create=True)
        return cls(store, config, base_offset, size=0, now_ms=now_ms, roll_jitter=roll_jitter)

    def with_store(self, store: SegmentStore, config: LogConfig) -> "Segment":
        """This segment with the copies of its files in `store`."""
        moved = Segment(
            store,
            config,
            self.base_offset,
            size=self.size,
            now_ms=self.created_ms,
            roll_jitter=self.roll_jitter,
            index_sizes=self.index_bytes,
            txn_index_size=self.aborted.size or None,
        )
        moved.first_timestamp = self.first_timestamp
        moved.max_timestamp = self.max_timestamp
        moved.offset_of_max_timestamp = self.offset_of_max_timestamp
        moved.bytes_since_index_entry = self.bytes_since_index_entry
        moved.is_index_full = self.is_index_full
        moved.is_prepared = self.is_prepared
        return moved

    def file_names(self) -> tuple[str, ...]:
        """Every name that may exist for this segment, including its producer snapshot."""
        return tuple(
            file_name(self.base_offset, kind) for kind in (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, PRODUCER_SNAPSHOT)
        )

    # Appending.

    def should_roll(
        self,
        config: LogConfig,
        *,
        size: int,
        max_timestamp: int,
        last_offset: int,
        now_ms: int,
        preceding_bytes: int = 0,
        preceding_timestamp: int = NO_TIMESTAMP,
    ) -> bool:
        """Whether these records require a new segment, if `preceding_bytes` are appended before them.
        `preceding_timestamp` is that of the first preceding batch; only used if the segment is empty.
        """
        if last_offset - self.base_offset > LARGEST_RELATIVE_OFFSET or self.is_index_full:
            return True
        start = self.size + preceding_bytes
        if start == 0:
            return False
        if start > config.segment_bytes - size:
            return True
        first = self.first_timestamp if self.size else preceding_timestamp
        age = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        max_ms = config.max_segment_ms
        if config.segment_jitter_ms:
            max_ms -= int(self.roll_jitter * min(config.segment_jitter_ms, max_ms))
        return age > max_ms

    def count_batch(self, last_offset: int, max_timestamp: int, size: int) -> None:
        """Count a batch of `size` bytes, which was written at the end of the file; index it if due."""
        if self.size == 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.bytes_since_index_entry > self._index_interval_bytes:
            self._add_index_entries(last_offset)
            self.bytes_since_index_entry = 0
        self.bytes_since_index_entry += size
        self.size += size

    def _add_index_entries(self, last_offset: int) -> None:
        offsets, times = self.offset_index, self.time_index
        try:
            offsets.append(last_offset - self.base_offset, self.size)
            self._add_time_entry(times)
        except NoSpaceLeft:
            # The entries stay in memory until the next write: an index may lag behind the log.
            pass
        self._update_is_full()

    def _update_is_full(self) -> None:
        # One time entry is reserved for the final one, which a roll adds without a check.
        self.is_index_full = self.offset_index.free_entries <= 0 or self.time_index.free_entries <= 1

    def _add_time_entry(self, times: IndexAppender) -> None:
        if self.max_timestamp > times.last[0]:
            times.append(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)

    # For loading, recovery and rolling.

    @property
    def offset_index(self) -> IndexAppender:
        """The writer of the offset index."""
        if self._offsets is None:
            self._offsets = self._appender(OFFSET_INDEX, OFFSET_ENTRY, self._index_sizes[0])
        return self._offsets

    @property
    def time_index(self) -> IndexAppender:
        """The writer of the time index."""
        if self._times is None:
            self._times = self._appender(TIME_INDEX, TIME_ENTRY, self._index_sizes[1])
        return self._times

    def _appender(self, kind: str, entry: Struct, size: int) -> IndexAppender:
        file = self._store.open(file_name(self.base_offset, kind))
        entries = used_entries(file, size, entry) if size else 0
        return IndexAppender(file, entry, max_bytes=self._max_index_bytes, entries=entries)

    @property
    def has_empty_indexes(self) -> bool:
        """Whether there is nothing to trim, truncate or write."""
        return self._offsets is None and self._times is None and self._index_sizes == (0, 0)

    def prepare_append(self) -> None:
        """Load the state of a segment written by an earlier process: first and largest timestamp, and whether its
        indexes are full.
        """
        self.is_prepared = True
        self.load_first_timestamp()
        self.load_max_timestamp()
        self._update_is_full()

    def load_first_timestamp(self) -> int:
        """The largest timestamp of the first batch."""
        if self.first_timestamp == NO_TIMESTAMP:
            first = next(walk_intact(self.log.read_at, 0, self.size), None)
            if first is not None:
                self.first_timestamp = first.largest_timestamp
        return self.first_timestamp

    def load_max_timestamp(self) -> int:
        """The largest timestamp, from the last time index entry and the batches after it.

        Damage is no error here: the owner only needs the age; readers detect damage.
        """
        if self.max_timestamp == NO_TIMESTAMP and self.size:
            found = OwnerLookup(self).largest_time(self.time_index)
            if found.timestamp > NO_TIMESTAMP:
                self.max_timestamp, self.offset_of_max_timestamp = found
        return self.max_timestamp

    def next_offset(self) -> int:
        """The offset after the last batch, found in the headers after the last index entry.

        Raises `CorruptBatch` for a damaged log.
        """
        if self.size == 0:
            return self.base_offset
        return OwnerLookup(self).next_offset()

    def position_of(self, offset: int) -> int:
        """The position of the batch with `offset`, or of a damaged batch before it, beyond which no reader gets;
        otherwise the end of the segment.
        """
        try:
            found = OwnerLookup(self).find(offset)
        except CorruptBatch as damage:
            return damage.position
        return self.size if found is None else found[0]

    def reset(self) -> None:
        """Reset counts and indexes before recovery counts all batches."""
        if not self.has_empty_indexes:
            self.offset_index.truncate_to_entries(0)
            self.time_index.truncate_to_entries(0)
        self.size = 0
        self.is_prepared = True
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        self.bytes_since_index_entry = 0
        self.is_index_full = False
        self.wrong_index = ""

    def complete(self) -> None:
        """Complete the segment: add the final time entry and trim the indexes."""
        if self.size == 0 and self.has_empty_indexes:
            return
        self.load_max_timestamp()
        self._add_time_entry(self.time_index)
        self.offset_index.trim()
        self.time_index.trim()

    def flush_indexes(self) -> None:
        """Write the entries in memory. On a full disk they stay in memory: recovery continues from the last entry on
        disk.
        """
        for index in (self._offsets, self._times):
            try:
                if index is not None:
                    index.flush()
            except NoSpaceLeft:
                continue

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Truncate from the batch with `offset` on."""
        position = self.position_of(offset)
        offsets, times = self.offset_index, self.time_index
        offsets.truncate_to_entries(entries_below(offsets.read_all(), 0, OFFSET_ENTRY.size, offset - self.base_offset))
        times.truncate_to_entries(entries_below(times.read_all(), 8, TIME_ENTRY.size, offset - self.base_offset))
        self.log.truncate(position)
        # After the log: a crash in between leaves an extra entry, which loading drops.
        self.aborted.truncate_to(offset)
        self.size = position
        self.bytes_since_index_entry = 0
        self.is_index_full = False
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        if position == 0:
            self.created_ms = now_ms
            self.first_timestamp = NO_TIMESTAMP
        self.load_max_timestamp()

    def replace_indexes(self, entries: IndexEntries) -> None:
        """Replace all entries; readers need a new generation. Raises `StorageFailed`, `NoSpaceLeft`."""
        for kind, content in ((OFFSET_INDEX, entries.offsets), (TIME_INDEX, entries.times)):
            self._store.replace(file_name(self.base_offset, kind), bytes(content))
        self._close_indexes()
        self._offsets = self._times = None
        self._index_sizes = (len(entries.offsets), len(entries.times))
        self.max_timestamp = entries.max_timestamp
        self.offset_of_max_timestamp = entries.offset_of_max_timestamp
        self.bytes_since_index_entry = entries.bytes_since_entry
        self.wrong_index = ""
        self._update_is_full()

    @property
    def index_bytes(self) -> tuple[int, int]:
        """The sizes of both indexes of a sealed segment, without reads."""
        offsets, times = self._offsets, self._times
        return (
            self._index_sizes[0] if offsets is None else offsets.entries * OFFSET_ENTRY.size,
            self._index_sizes[1] if times is None else times.entries * TIME_ENTRY.size,
        )

    def sync_files(self) -> tuple[LogFile, ...]:
        """The files to sync so that the segment survives a power failure."""
        offsets = self._offsets.file if self._offsets else self._store.open(file_name(self.base_offset, OFFSET_INDEX))
        times = self._times.file if self._times else self._store.open(file_name(self.base_offset, TIME_INDEX))
        return (self.log, offsets, times, *self.aborted.files())

    def close(self) -> None:
        self.log.close()
        self.aborted.close()
        self._close_indexes()

    def _close_indexes(self) -> None:
        for index in (self._offsets, self._times):
            if index is not None:
                index.close()
