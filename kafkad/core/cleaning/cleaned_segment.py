"""The segment that a cleaning pass writes: log and indexes, under names that end in `.cleaned`.

It is not read before the owner of the partition has renamed it. After a crash, loading removes its files.
"""

from collections.abc import Sequence

from kafkad.core.cleaning.rewriting import RewrittenBatches
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.index_entries import IndexEntries
from kafkad.core.log.segments.layout import CLEANED, LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from kafkad.core.log.segments.transaction_index import ENTRY_LAYOUT, AbortedTransaction
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import LogFile, SegmentStore

_TXN_VERSION = 0
_MAX_PIECES = 1024
"""The limit for one write (IOV_MAX of Linux)."""


class CleanedSegment:
    """A segment that is being written: call `append`, and finally `finish`."""

    def __init__(self, store: SegmentStore, config: LogConfig, base_offset: int) -> None:
        self._store = store
        self._base_offset = base_offset
        self._entries = IndexEntries(base_offset, config.index_interval_bytes)
        for kind in (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX):
            # Left by a pass that was killed.
            store.unlink(file_name(base_offset, kind, CLEANED))
        self._log = store.open(file_name(base_offset, LOG, CLEANED), create=True)

    @property
    def size(self) -> int:
        return self._entries.size

    def append(self, batches: RewrittenBatches) -> None:
        """Write the batches. Raises `StorageFailed`."""
        if not batches.pieces:
            return
        pieces = batches.pieces
        self._log.write_at(pieces if len(pieces) <= _MAX_PIECES else (b"".join(pieces),), self.size)
        rows = zip(batches.sizes, batches.last_offsets, batches.max_timestamps, strict=True)
        for size, last_offset, max_timestamp in rows:
            self._entries.count(size, last_offset, max_timestamp)

    def finish(self, aborted: Sequence[AbortedTransaction], modified_ms: int) -> CleanedFiles:
        """Write the indexes. The files are not synced. Raises `StorageFailed`.

        `modified_ms` is the age of the cleaned segments, for retention of records without timestamps.
        """
        entries = self._entries
        entries.finish()
        aborted_entries = b"".join(ENTRY_LAYOUT.pack(_TXN_VERSION, *entry) for entry in aborted)
        self._write(OFFSET_INDEX, entries.offsets)
        self._write(TIME_INDEX, entries.times)
        if aborted_entries:
            self._write(TXN_INDEX, aborted_entries)
        for kind in (LOG, OFFSET_INDEX, TIME_INDEX):
            self._store.set_modified_ms(file_name(self._base_offset, kind, CLEANED), modified_ms)
        return CleanedFiles(
            base_offset=self._base_offset,
            size=entries.size,
            index_bytes=len(entries.offsets),
            time_index_bytes=len(entries.times),
            txn_index_bytes=len(aborted_entries),
            max_timestamp=entries.max_timestamp,
            offset_of_max_timestamp=entries.offset_of_max_timestamp,
            first_timestamp=entries.first_timestamp,
        )

    def _write(self, kind: str, content: bytes | bytearray) -> None:
        file = self._store.open(file_name(self._base_offset, kind, CLEANED), create=True)
        if content:
            file.write_at((content,), 0)


def cleaned_files(store: SegmentStore, files: CleanedFiles) -> tuple[LogFile, ...]:
    """The files that have to be synced before the segment replaces its sources."""
    return tuple(store.open(file_name(files.base_offset, kind, CLEANED)) for kind in files.kinds())
