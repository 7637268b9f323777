"""The segment that a pass writes: its log and indexes, under names that end in `.cleaned`.

Nobody reads it before the owner of the partition has renamed it. A crash leaves files that loading removes.
"""

from collections.abc import Sequence

from kafkad.core.cleaning.rewriting import RewrittenBatches
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.index import NO_ENTRY, OFFSET_ENTRY, TIME_ENTRY
from kafkad.core.log.segments.layout import CLEANED, LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from kafkad.core.log.segments.transaction_index import ENTRY_LAYOUT, AbortedTransaction
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import LogFile, SegmentStore
from kafkad.core.types import NO_TIMESTAMP

_TXN_VERSION = 0
_MOST_PIECES = 1024
"""Of one write (IOV_MAX of Linux)."""


class CleanedSegment:
    """A segment under way; `append` and at last `finish`."""

    def __init__(self, store: SegmentStore, config: LogConfig, base_offset: int) -> None:
        self._store = store
        self._interval = config.index_interval_bytes
        self._base_offset = base_offset
        for kind in (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX):
            # What a pass that was killed has left.
            store.unlink(file_name(base_offset, kind, CLEANED))
        self._log = store.open(file_name(base_offset, LOG, CLEANED), create=True)
        self._offsets = bytearray()
        self._times = bytearray()
        self._last_time = NO_ENTRY[0]
        self._since_entry = 0
        self._first_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max = base_offset
        self.size = 0

    def append(self, batches: RewrittenBatches) -> None:
        """Raises `StorageFailed`."""
        if not batches.pieces:
            return
        pieces = batches.pieces
        self._log.write_at(pieces if len(pieces) <= _MOST_PIECES else (b"".join(pieces),), self.size)
        rows = zip(batches.sizes, batches.last_offsets, batches.max_timestamps, strict=True)
        for size, last_offset, max_timestamp in rows:
            self._count(size, last_offset, max_timestamp)

    def _count(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """As `Segment.count_batch`."""
        if self.size == 0:
            self._first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._offset_of_max = max_timestamp, last_offset
        if self._since_entry > self._interval:
            self._offsets += OFFSET_ENTRY.pack(last_offset - self._base_offset, self.size)
            self._add_time_entry()
            self._since_entry = 0
        self._since_entry += size
        self.size += size

    def _add_time_entry(self) -> None:
        if self._max_timestamp > self._last_time:
            self._times += TIME_ENTRY.pack(self._max_timestamp, self._offset_of_max - self._base_offset)
            self._last_time = self._max_timestamp

    def finish(self, aborted: Sequence[AbortedTransaction], modified_ms: int) -> CleanedFiles:
        """Write the indexes. The files are not synced. Raises `StorageFailed`.

        `modified_ms` is the age of what was cleaned: retention goes by it where no record has a timestamp.
        """
        if self.size:
            self._add_time_entry()
        entries = b"".join(ENTRY_LAYOUT.pack(_TXN_VERSION, *entry) for entry in aborted)
        self._write(OFFSET_INDEX, self._offsets)
        self._write(TIME_INDEX, self._times)
        if entries:
            self._write(TXN_INDEX, entries)
        for kind in (LOG, OFFSET_INDEX, TIME_INDEX):
            self._store.set_modified_ms(file_name(self._base_offset, kind, CLEANED), modified_ms)
        return CleanedFiles(
            base_offset=self._base_offset,
            size=self.size,
            index_bytes=len(self._offsets),
            time_index_bytes=len(self._times),
            txn_index_bytes=len(entries),
            max_timestamp=self._max_timestamp,
            offset_of_max_timestamp=self._offset_of_max,
            first_timestamp=self._first_timestamp,
        )

    def _write(self, kind: str, content: bytes | bytearray) -> None:
        file = self._store.open(file_name(self._base_offset, kind, CLEANED), create=True)
        if content:
            file.write_at((content,), 0)


def cleaned_files(store: SegmentStore, files: CleanedFiles) -> tuple[LogFile, ...]:
    """What has to be synced before the segment takes the place of its sources."""
    return tuple(store.open(file_name(files.base_offset, kind, CLEANED)) for kind in files.kinds())
