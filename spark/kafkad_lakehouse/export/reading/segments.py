"""Read a range of offsets from the segment files of a partition, without its broker.

The broker may concurrently remove, compact or swap segments: an open file does not change, and if the next segment is
missing, the directory is listed again. For offsets that are no longer there, the caller sends requests to the broker.
A sealed segment must consist of batches up to its end. Nothing is written to the directory, and reads do not change the
page cache.
"""

import os
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

from kafkad.adapters.files.cache_neutral_reads import CacheNeutralFiles
from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFile
from kafkad.core.columns.window import BatchWindow, read_window
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.records.old_formats import old_message_at
from kafkad.core.log.segments.index import OffsetPosition
from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, SWAP, TXN_INDEX, file_name, parse_file_name
from kafkad.core.log.segments.transaction_index import unpack_entries
from kafkad.core.ports import StorageFailed
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.reading.damage import Damaged, base_of_whole, damaged_piece_at
from kafkad_lakehouse.export.reading.positions import (
    end_in_active,
    end_in_sealed,
    parse_index,
    position_of,
    reaches,
    whole_before,
)
from kafkad_lakehouse.export.reading.transactions import Aborted

WINDOW_BYTES = 8 * 1024 * 1024
_OPEN_FILES = 8
_SWAP_S = 10.0
_PAUSE_S = 0.005


class OffsetMissing(Exception):
    """The directory no longer has this offset; the broker may still serve it."""

    def __init__(self, directory: str, offset: int) -> None:
        super().__init__(f"{directory} no longer has offset {offset}")
        self.offset = offset


class SegmentReader:
    """The segments of a directory. `windows` and `aborted` raise `ExportFailed`, `OffsetMissing`, `CorruptBatch`."""

    def __init__(self, directory: str, shown_by: str | None = None) -> None:
        """`shown_by`: a folder with links to open files of `directory`; messages name only `directory`."""
        self.directory = directory
        self._folder = directory if shown_by is None else shown_by
        self._store = CacheNeutralFiles(self._folder, FileCache(_OPEN_FILES, read_only=True))

    def bases(self) -> list[int]:
        """The base offsets of the present segments.

        While the broker replaces segments (`.swap`), the list is incomplete: this method waits for the end.
        """
        deadline_s = time.monotonic() + _SWAP_S
        while True:
            names = self._names()
            if not any(name.endswith(f"{LOG}{SWAP}") for name in names):
                parsed = (parse_file_name(name) for name in names)
                return sorted(each.base_offset for each in parsed if each and each.kind == LOG and not each.suffix)
            if time.monotonic() > deadline_s:
                raise ExportFailed(f"{self.directory}: segments are being replaced; only the broker can finish this")
            time.sleep(_PAUSE_S)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except OSError as error:
            raise ExportFailed(f"{self.directory} can't be read: {error.strerror}") from error

    def reaches(self, end: int) -> bool:
        """Whether the log reaches `end`. A replica that is behind does not, and may lack markers of transactions."""
        bases = self.bases()
        if not bases or bases[-1] >= end:
            return bool(bases)
        with self._opened(bases[-1], end) as log:
            size = log.size()
            return reaches(log.read_at, self._index(bases[-1], size), end, size)

    def windows(self, start: int, end: int) -> Iterator[BatchWindow]:
        """The batches with offsets in `start` <= offset < `end`, in order, some megabytes at a time."""
        for piece in self._pieces(start, end, sets_aside=False):
            assert isinstance(piece, BatchWindow)
            yield piece

    def pieces(self, start: int, end: int) -> Iterator[BatchWindow | Damaged]:
        """As `windows`, but damage is returned instead of raised.

        Raises `CorruptBatch` only if the active segment is damaged and the position of the next batch is unknown.
        """
        return self._pieces(start, end, sets_aside=True)

    def _pieces(self, start: int, end: int, *, sets_aside: bool) -> Iterator[BatchWindow | Damaged]:
        offset = start
        last: tuple[int, int] | None = None
        while offset < end:
            base = self._segment_of(offset, last)
            if base is None or base >= end:
                return
            # Before the segment is opened: a segment that is sealed now does not grow while it is read.
            following = self._base_behind(base)
            with self._opened(base, offset) as log:
                inode = os.fstat(log.descriptor()).st_ino
                if last == (base, inode):
                    # The file is unchanged: the rest of the range has no records.
                    return
                last = base, inode
                for piece in self._pieces_of(log, base, offset, end, following, sets_aside=sets_aside):
                    offset = piece.end if isinstance(piece, Damaged) else int(piece.last_offset[-1]) + 1
                    yield piece
            offset = max(offset, base)

    def aborted(self, start: int, end: int) -> list[Aborted]:
        """The aborted transactions with records in the range, which ends at or before the last stable offset."""
        while True:
            # While the broker replaces a segment, its index has no name for a moment.
            before = self.sealed_inodes()
            found = self._aborted(start, end)
            if self.sealed_inodes() == before:
                return found

    def _aborted(self, start: int, end: int) -> list[Aborted]:
        found: list[Aborted] = []
        for base in self._segments_from(start):
            name = file_name(base, TXN_INDEX)
            if not self._store.has(name):
                continue
            with self._failures(name):
                file = self._store.open(name)
                try:
                    entries = unpack_entries(file.read_at(file.size(), 0))
                except FileNotFoundError:
                    # The segment was removed, or compacted into the previous one.
                    continue
                finally:
                    file.close()
            found += [
                Aborted(entry.producer_id, entry.first_offset, entry.last_offset)
                for entry in entries
                if entry.last_offset >= start and entry.first_offset < end
            ]
            if entries and entries[-1].last_stable_offset >= end:
                break
        return found

    def sealed_inodes(self) -> dict[int, int]:
        """The inodes of the sealed segments by base offset; the active segment may be sealed meanwhile."""
        return {base: self._inode(base) for base in self.bases()[:-1]}

    def cuts(self, start: int, end: int, piece_bytes: int) -> list[int]:
        """Offsets that divide the range into pieces of about `piece_bytes` bytes, at batches in the indexes."""
        found: list[int] = []
        size = 0
        for base in self._segments_from(start):
            if base >= end:
                break
            try:
                with self._opened(base, base) as log:
                    previous = 0
                    for entry in self._index(base, log.size()):
                        if entry.position - previous < piece_bytes - size:
                            continue
                        first = base_of_whole(log.read_at, entry.position, log.size())
                        size, previous = 0, entry.position
                        if first is not None and start < first < end:
                            found.append(first)
                    size += log.size() - previous
            except OffsetMissing:
                continue
        return found

    def size(self, start: int, end: int) -> int:
        """The approximate size of the range in bytes, by the indexes."""
        total = 0
        for base in self._segments_from(start):
            if base >= end:
                break
            with self._opened(base, base) as log:
                size = log.size()
            entries = self._index(base, size)
            first = max((each.position for each in entries if each.offset <= start), default=0)
            total += min((each.position for each in entries if each.offset >= end), default=size) - first
        return total

    def bases_of(self, start: int, end: int) -> list[int]:
        """The base offsets of the segments that may have records of this range."""
        return [base for base in self._segments_from(start) if base < end]

    def _segments_from(self, offset: int) -> list[int]:
        bases = self.bases()
        return bases[max(bisect_right(bases, offset) - 1, 0) :]

    def _segment_of(self, offset: int, last: tuple[int, int] | None) -> int | None:
        """The segment with `offset` or the next one; `last` was read completely, unless its file was replaced."""
        bases = self.bases()
        at = bisect_right(bases, offset) - 1
        if at < 0:
            raise OffsetMissing(self.directory, offset)
        if last is not None and bases[at] == last[0] and self._inode(bases[at]) == last[1]:
            at += 1
            if at < len(bases) and bases[at] > offset and self.bases() != bases:
                # A listing of a folder that changes concurrently may lack a name.
                return self._segment_of(offset, last)
        return bases[at] if at < len(bases) else None

    def _inode(self, base: int) -> int:
        try:
            return os.stat(f"{self._folder}/{file_name(base, LOG)}").st_ino
        except OSError:
            return -1

    def _base_behind(self, base: int) -> int | None:
        """The base offset of the next segment; None for the active segment."""
        bases = self.bases()
        at = bisect_right(bases, base)
        return bases[at] if at < len(bases) else None

    def _pieces_of(
        self, log: SegmentFile, base: int, start: int, end: int, following: int | None, *, sets_aside: bool
    ) -> Iterator[BatchWindow | Damaged]:
        size = log.size()
        index = self._index(base, size)
        first = whole_before if sets_aside else position_of
        position = first(log.read_at, index, start, size)
        limit = (end_in_active if following is None else end_in_sealed)(log.read_at, index, end, size)
        while position < limit:
            try:
                window = read_window(log.read_at, position, limit, WINDOW_BYTES)
            except CorruptBatch as error:
                is_whole = base_of_whole(log.read_at, error.position, size) is not None
                if not sets_aside or is_whole or old_message_at(log.read_at, error.position, size) is not None:
                    raise
                if error.position > position:
                    window = read_window(log.read_at, position, error.position, error.position - position)
                else:
                    positions = [entry.position for entry in index]
                    named = self._with_place(file_name(base, LOG), error)
                    piece = damaged_piece_at(log.read_at, named, limit, positions, base, following or end)
                    yield piece.damaged
                    position = piece.next_position
                    continue
            self._check_offsets(window, base, following)
            yield window
            position = window.end

    def _check_offsets(self, window: BatchWindow, base: int, following: int | None) -> None:
        """Check that no offset is in the next segment, unless the next segment was merged into this one."""
        last = int(window.last_offset[-1])
        if following is not None and last >= following and last >= (self._base_behind(base) or last + 1):
            raise CorruptBatch(window.position_of(-1), f"its last offset is {last}, beyond its segment")

    def _index(self, base: int, size: int) -> list[OffsetPosition]:
        name = file_name(base, OFFSET_INDEX)
        file = self._store.open(name)
        with self._failures(name):
            try:
                content = file.read_at(file.size(), 0)
            except FileNotFoundError:
                return []
            finally:
                file.close()
        return parse_index(content, base, size)

    @contextmanager
    def _opened(self, base: int, offset: int) -> Iterator[SegmentFile]:
        name = file_name(base, LOG)
        file = self._store.open(name)
        with self._failures(name):
            try:
                file.pin()
            except FileNotFoundError as error:
                raise OffsetMissing(self.directory, offset) from error
            try:
                yield file
            except CorruptBatch as error:
                old = old_message_at(file.read_at, error.position, file.size())
                if old is None:
                    raise
                raise ExportFailed(
                    f"{self.directory}/{name} has a message of magic {old.magic} at byte {error.position} (offset"
                    f" {old.offset}): the format before Apache Kafka 0.11, which can't be exported"
                ) from error
            finally:
                file.unpin()
                file.close()

    @contextmanager
    def _failures(self, name: str) -> Iterator[None]:
        try:
            yield
        except StorageFailed as error:
            raise ExportFailed(str(error)) from error
        except CorruptBatch as error:
            raise self._with_place(name, error) from error

    def _with_place(self, name: str, error: CorruptBatch) -> CorruptBatch:
        return CorruptBatch(error.position, f"{self.directory}/{name}: {error.reason}")
