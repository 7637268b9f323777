"""The log readers of a network process: one reader for a slot and generation, with its files and its manifest.

The newest segment requires no manifest: its name is in the slot. For older segments the manifest is requested from the
owner once in each generation, and fetches of them wait (`None`). A handle belongs to (slot, generation, topic id): when
one of them changes, a new reader is created. No lookup here waits for a disk: if it would, a thread first reads the
pages into the page cache.
"""

import logging
from collections.abc import Sequence
from functools import partial

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFile, SegmentFiles
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import KafkaError
from kafkad.core.log.reading.log_reader import Extent, LogReader, ManifestStale
from kafkad.core.log.reading.segment_facts import SegmentFacts
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.segments.indexed_batches import WrongIndex
from kafkad.core.log.segments.manifest import LogManifest
from kafkad.core.partition_slot import ROLE_LEADER, PartitionSlot, SlotReader
from kafkad.core.ports import NotInMemory, StorageFailed
from kafkad.core.types import NO_LEADER_EPOCH, TXN_COMMITTED, LogPosition
from kafkad.handlers.fetch import RequestedRecords
from kafkad.handlers.partitions.damage import DAMAGE, code_of
from kafkad.handlers.partitions.fetch_measure import SegmentRange
from kafkad.processes.network.logs.reading_threads import LogSearches
from kafkad.processes.network.metadata_copy import MetadataCopy
from kafkad.processes.runtime.peers import Sender
from kafkad.wire.messages.fetch import FileSlice
from kafkad.wire.processes.descriptors import Manifest, ManifestRequest, pack_control, short_topic_id


class LogHandle:
    """A partition's reader; `is_whole` if it has the owner's manifest, not only the newest segment.

    `ahead` has the offsets whose pages a thread reads, or (True) has read, so that this process does not wait.
    `touched` has the older segments that were opened before. `learnt` has the last whole reader's facts about segments.
    """

    __slots__ = ("ahead", "generation", "is_whole", "learnt", "reader", "topic_id", "touched")

    def __init__(self, reader: LogReader, topic_id: bytes, generation: int, *, is_whole: bool) -> None:
        self.reader = reader
        self.topic_id = topic_id
        self.generation = generation
        self.is_whole = is_whole
        self.ahead: dict[int, bool] = {}
        self.touched: set[int] = set()
        self.learnt: tuple[LogManifest, SegmentFacts] | None = (reader.manifest, reader.facts) if is_whole else None

    def follow(self, before: "LogHandle") -> None:
        """Inherit the facts of `before`, a handle of the same log."""
        if before.learnt is None:
            return
        if self.is_whole:
            manifest, facts = before.learnt
            self.reader.facts.inherit(facts, manifest, self.reader.manifest)
        else:
            self.learnt = before.learnt

    @property
    def segments(self) -> int:
        """The number of segments in memory."""
        return len(self.learnt[0].segment_bases) if self.learnt is not None else 1

    def has(self, offset: int, upper: LogPosition) -> bool:
        """Whether the reader knows all segments from `offset` to `upper`."""
        manifest = self.reader.manifest
        return self.is_whole or (manifest.segment_bases[0] <= offset and manifest.has_segment(upper.segment_base))

    def is_untouched(self, offset: int) -> bool:
        """Whether `offset` is in an older segment that is not open: opening it may wait for a disk."""
        bases = self.reader.manifest.segment_bases
        if offset >= bases[-1]:
            return False
        number = self.reader.manifest.segment_number(offset)
        return number >= 0 and bases[number] not in self.touched


log = logging.getLogger(__name__)

_EMPTY = SegmentRange(0, 0, 0)


MOST_SEGMENTS = 1_000_000
"""The limit of segments in all cached manifests; beyond it the oldest manifests are dropped."""
_MOST_AHEAD = 1_000


class LogReaders:
    """Implements the `Logs` port of the fetch handler, and has the readers for lookups by time and epoch.

    `workers` are the owners of partitions, by index; `read_ahead` runs lookups in threads.
    """

    def __init__(
        self,
        files: FileCache,
        copy: MetadataCopy,
        slots: SlotReader,
        sender: Sender,
        workers: Sequence[ProcessKey],
        read_ahead: LogSearches,
    ) -> None:
        files.may_wait = False
        self._files = files
        self._read_ahead = read_ahead
        self._slots = slots
        self.has_changes = False
        """Whether a manifest or index pages have arrived since the last pass."""
        self._segments = 0
        """The number of segments in all manifests."""
        self._copy = copy
        self._sender = sender
        self._workers = workers
        self._handles: dict[int, LogHandle] = {}
        self._requested: dict[int, int] = {}
        """The requested generation by slot."""
        self._unreadable: dict[int, int] = {}
        """The generation with a logged read error, by slot."""
        self._missing: dict[int, int] = {}
        """The generation with missing files, by slot: its manifest is requested once more, then the read fails."""
        self._wrong_indexes: dict[int, tuple[int, int]] = {}
        """(generation, segment) of a wrong index, by slot: the owner checks it once; then the log counts as damaged."""

    def locate(self, slot: int, published: PartitionSlot, requested: RequestedRecords) -> SegmentRange | None:
        handle = self._current_handle(slot, published)
        if handle is None:
            return _EMPTY
        offset = requested.offset
        if not handle.has(offset, requested.upper):
            self._request_manifest(slot, published)
            return None
        was_read_ahead = handle.ahead.pop(offset, None) if handle.ahead else None
        if was_read_ahead is False or (was_read_ahead is None and handle.is_untouched(offset)):
            self._prepare(handle, requested, is_under_way=was_read_ahead is False)
            return None
        # Read ahead only once, even if the pages were evicted again.
        self._files.may_wait = was_read_ahead is True
        try:
            extent = _locate(handle.reader, requested)
        except NotInMemory:
            self._prepare(handle, requested, is_under_way=False)
            return None
        except ManifestStale:
            self.refresh_manifest(slot, published)
            return None
        except WrongIndex as wrong:
            self.recheck_index(slot, published, wrong)
            return None
        except KafkaError:
            # During a truncation the slot and the files differ for a moment: no records now.
            return _EMPTY
        except DAMAGE as error:
            raise self.unreadable(slot, published, error) from error
        finally:
            self._files.may_wait = False
        return SegmentRange(*extent)

    def _prepare(self, handle: LogHandle, requested: RequestedRecords, *, is_under_way: bool) -> None:
        """Let a thread read the pages of the lookup; waiting requests continue as after a manifest."""
        handle.ahead[requested.offset] = False
        if is_under_way:
            return
        if len(handle.ahead) > _MOST_AHEAD:
            handle.ahead = {requested.offset: False}

        def done(_: object) -> None:
            # The lookup in this process raises the same error again.
            handle.ahead[requested.offset] = True
            manifest = handle.reader.manifest
            handle.touched.add(manifest.segment_bases[manifest.segment_number(requested.offset)])
            self.has_changes = True

        self._read_ahead.begin(handle.reader, partial(_read_records_ahead, requested), done)

    def aborted(
        self, slot: int, published: PartitionSlot, offset: int, place: SegmentRange, upper: LogPosition
    ) -> list[tuple[int, int]] | None:
        handle = self._current_handle(slot, published)
        if handle is None or not handle.has(offset, upper):
            # The log was dropped since it was located: send no records.
            return None
        # Usually a thread has read the index together with the log.
        self._files.may_wait = True
        try:
            return handle.reader.aborted(offset, Extent(*place), upper)
        except ManifestStale:
            self.refresh_manifest(slot, published)
            return None
        except DAMAGE as error:
            raise self.unreadable(slot, published, error) from error
        finally:
            self._files.may_wait = False

    def unreadable(self, slot: int, published: PartitionSlot, error: Exception) -> KafkaError:
        if self._unreadable.get(slot) != published.generation:
            self._unreadable[slot] = published.generation
            log.error("can't read %s: %s", self._copy.directory_of(slot, published.log_dir), error)
        return KafkaError(code_of(error), str(error))

    def refresh_manifest(self, slot: int, published: PartitionSlot) -> None:
        self._forget(slot)
        if self._missing.get(slot) == published.generation:
            missing = StorageFailed("files that its owner names are not there")
            raise self.unreadable(slot, published, missing)
        self._missing[slot] = published.generation
        self._request_manifest(
            slot, published, ManifestRequest(slot, short_topic_id(published.topic_id), files_missing=True)
        )

    def recheck_index(self, slot: int, published: PartitionSlot, error: WrongIndex) -> None:
        """An index contradicts the log: the owner checks both and responds with a manifest. Raises `KafkaError` after
        a previous check.
        """
        generation = published.generation
        if self._requested.get(slot) == generation:
            return
        if self._wrong_indexes.get(slot) == (generation, error.base_offset):
            raise self.unreadable(slot, published, CorruptBatch(error.position, error.reason))
        short_id = short_topic_id(published.topic_id)
        self._request_manifest(slot, published, ManifestRequest(slot, short_id, False, error.base_offset, generation))
        if self._requested.get(slot) == generation:
            self._wrong_indexes[slot] = (generation, error.base_offset)

    def epoch_end(self, slot: int, published: PartitionSlot, epoch: int) -> tuple[int, int] | None:
        reader = self.reader(slot, published)
        if reader is None:
            return None
        leader_epoch = published.leader_epoch if published.role == ROLE_LEADER else NO_LEADER_EPOCH
        return reader.epoch_end_offset(epoch, published.leo_offset, leader_epoch)

    def reader(self, slot: int, published: PartitionSlot) -> LogReader | None:
        """A reader with the owner's manifest; None while the manifest is requested."""
        handle = self._current_handle(slot, published)
        if handle is not None and handle.is_whole:
            return handle.reader
        self._request_manifest(slot, published)
        return None

    def open(self, slot: int, published: PartitionSlot, place: SegmentRange) -> FileSlice | None:
        handle = self._handles.get(slot)
        if handle is None or self._was_replaced(slot, handle, published, place):
            return None
        try:
            file = handle.reader.log_file(place.segment_base)
            assert isinstance(file, SegmentFile)
            fd = file.pin()
        except (FileNotFoundError, ManifestStale):
            self._forget(slot)
            return None
        except StorageFailed as error:
            self.unreadable(slot, published, error)
            return None
        return FileSlice(fd, place.position, place.length, file.unpin, slot, published.generation)

    def _was_replaced(self, slot: int, handle: LogHandle, published: PartitionSlot, place: SegmentRange) -> bool:
        """Whether compaction may have replaced the segment file since `place` was located in an earlier pass."""
        if handle.reader.manifest.segment_bases[-1] == place.segment_base:
            return False
        return not handle.generation == published.generation == self._slots.read(slot).generation

    def arrived(self, message: Manifest, published: PartitionSlot) -> None:
        """Use the owner's manifest, unless it is outdated."""
        self.has_changes = True
        self._requested.pop(message.slot, None)
        is_current = message.found and message.generation == published.generation
        if is_current and short_topic_id(published.topic_id) == message.short_id:
            self._put(message.slot, published, _unpack(message), is_whole=True)

    def owner_lost(self) -> None:
        """A worker died: pending manifest requests get no response."""
        self._requested.clear()

    def forget(self, slot: int) -> None:
        """The partition was removed or moved: close its files, so that their disk space is freed."""
        self._forget(slot)
        self._requested.pop(slot, None)
        self._unreadable.pop(slot, None)
        self._missing.pop(slot, None)
        self._wrong_indexes.pop(slot, None)

    def files_removed(self, slots: list[int], table: SlotReader) -> None:
        """The owner has unlinked files: close files of earlier generations."""
        for slot in slots:
            handle = self._handles.get(slot)
            if handle is not None and handle.generation != table.read(slot).generation:
                self._forget(slot)

    def _current_handle(self, slot: int, published: PartitionSlot) -> LogHandle | None:
        handle = self._handles.get(slot)
        if handle is None or handle.generation != published.generation or handle.topic_id != published.topic_id:
            newest = LogManifest(generation=published.generation, segment_bases=(published.hw_segment,), epochs=())
            handle = self._put(slot, published, newest, is_whole=False)
        return handle

    def _put(self, slot: int, published: PartitionSlot, manifest: LogManifest, *, is_whole: bool) -> LogHandle | None:
        before = self._forget(slot)
        directory = self._copy.directory_of(slot, published.log_dir)
        if directory is None:
            # The topic was deleted while the owner's manifest or a client's request was in flight.
            return None
        store = SegmentFiles(directory, self._files)
        reader = LogReader(store, manifest)
        handle = LogHandle(reader, published.topic_id, published.generation, is_whole=is_whole)
        if before is not None and before.topic_id == published.topic_id:
            handle.follow(before)
        self._handles[slot] = handle
        self._segments += handle.segments
        while self._segments > MOST_SEGMENTS and len(self._handles) > 1:
            self._forget(next(iter(self._handles)))
        return handle

    def _forget(self, slot: int) -> LogHandle | None:
        handle = self._handles.pop(slot, None)
        if handle is not None:
            handle.reader.close()
            self._segments -= handle.segments
        return handle

    def _request_manifest(self, slot: int, published: PartitionSlot, request: ManifestRequest | None = None) -> None:
        if self._requested.get(slot) != published.generation and published.owner >= 0:
            request = request or ManifestRequest(slot, short_topic_id(published.topic_id))
            if self._sender.send(self._workers[published.owner], pack_control(request)):
                self._requested[slot] = published.generation


def _locate(reader: LogReader, requested: RequestedRecords) -> Extent:
    return reader.locate(requested.offset, requested.upper, requested.max_bytes, minimum_one_batch=requested.whole)


def _read_records_ahead(requested: RequestedRecords, reader: LogReader) -> None:
    extent = _locate(reader, requested)
    if requested.isolation == TXN_COMMITTED:
        reader.aborted(requested.offset, extent, requested.upper)


def _unpack(message: Manifest) -> LogManifest:
    bases, epochs = message.segment_bases, message.epochs
    return LogManifest(
        generation=message.generation,
        segment_bases=tuple(bases),
        epochs=tuple((epoch, start) for epoch, start in epochs),
        rewrites=message.rewrites,
    )
