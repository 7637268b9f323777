"""How a network process reads logs: one reader for a slot and generation, its files, its manifest.

The newest segment needs no manifest: its name is in the slot. For older segments the owner is asked once in each
generation, and requests that need them wait (`None`). A handle belongs to (slot, generation, topic id): when one of
them changes, the reader is made anew. No look-up here waits for a disk: where one would, a thread makes it first, to
fill the page cache.
"""

import logging
from collections.abc import Callable
from functools import partial

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFile, SegmentFiles
from kafkad.core.errors import KafkaError
from kafkad.core.log.reading.log_reader import Extent, LogReader, ManifestStale
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.segments.indexed_batches import WrongIndex
from kafkad.core.log.segments.manifest import LogManifest
from kafkad.core.partition_slot import ROLE_LEADER, PartitionSlot, SlotReader
from kafkad.core.ports import NotInMemory, StorageFailed
from kafkad.core.types import NO_LEADER_EPOCH, TXN_COMMITTED, LogPosition
from kafkad.handlers.fetch import RequestedRecords
from kafkad.handlers.partitions.damage import DAMAGE, code_of
from kafkad.handlers.partitions.fetch_measure import SegmentRange
from kafkad.processes.network.logs.handle import LogHandle
from kafkad.wire.messages.fetch import FileSlice
from kafkad.wire.processes.descriptors import Manifest, ManifestRequest, pack_control, short_topic_id

log = logging.getLogger(__name__)

_EMPTY = SegmentRange(0, 0, 0)


MOST_SEGMENTS = 1_000_000
"""Segments of all cached manifests: beyond that the oldest manifests are dropped and requested again when needed."""
_MOST_AHEAD = 1_000


LookAhead = Callable[[LogReader, Callable[[LogReader], object], Callable[[object], None]], None]
"""(reader, the work with a reader like it, the callback in the loop when that is done)."""


class LogReaders:
    """Implements the `Logs` port of the fetch handler, and hands readers to the look-ups by time and epoch.

    `directory_of` names the directory of a slot's partition, None when the metadata has none in that slot any more;
    `ask` sends a control frame to an owner; `look_ahead` has a thread look into a log, and says when it has;
    `generation_of` is what a slot says now.
    """

    def __init__(
        self,
        files: FileCache,
        directory_of: Callable[[int, PartitionSlot], str | None],
        ask: Callable[[int, bytes], bool],
        look_ahead: LookAhead,
        generation_of: Callable[[int], int],
    ) -> None:
        files.may_wait = False
        self._files = files
        self._look_ahead = look_ahead
        self._generation_of = generation_of
        self.has_news = False
        """A manifest or pages of an index have come, which requests may wait for."""
        self._segments = 0
        """The number of segments in all manifests."""
        self._directory_of = directory_of
        self._ask = ask
        self._handles: dict[int, LogHandle] = {}
        self._asked: dict[int, int] = {}
        """Generation asked for, by slot."""
        self._unreadable: dict[int, int] = {}
        """Generation in which a slot's files were found damaged, which is logged once."""
        self._missing: dict[int, int] = {}
        """Generation whose files were missing: its manifest is requested once more, then the log can't be read."""
        self._wrong_indexes: dict[int, tuple[int, int]] = {}
        """(generation, segment) of which an index was found wrong: its owner has looked, or will, and then the log is
        damaged.
        """

    def locate(self, slot: int, published: PartitionSlot, wanted: RequestedRecords) -> SegmentRange | None:
        handle = self._handle(slot, published)
        if handle is None:
            return _EMPTY
        offset = wanted.offset
        if not handle.has(offset, wanted.upper):
            self._want(slot, published)
            return None
        was_looked_up = handle.ahead.pop(offset, None) if handle.ahead else None
        if was_looked_up is False or (was_looked_up is None and handle.is_untouched(offset)):
            self._prepare(handle, wanted, is_under_way=was_looked_up is False)
            return None
        # Once is enough, also if memory is so short that the pages are gone again.
        self._files.may_wait = was_looked_up is True
        try:
            extent = _locate(handle.reader, wanted)
        except NotInMemory:
            self._prepare(handle, wanted, is_under_way=False)
            return None
        except ManifestStale:
            self.refresh_manifest(slot, published)
            return None
        except WrongIndex as wrong:
            self.recheck_index(slot, published, wrong)
            return None
        except KafkaError:
            # During a truncation the slot and the files differ for a moment: nothing can be read now.
            return _EMPTY
        except DAMAGE as error:
            raise self.unreadable(slot, published, error) from error
        finally:
            self._files.may_wait = False
        return SegmentRange(*extent)

    def _prepare(self, handle: LogHandle, wanted: RequestedRecords, *, is_under_way: bool) -> None:
        """Have a thread read the pages of the look-up; waiting requests continue with the next manifests."""
        handle.ahead[wanted.offset] = False
        if is_under_way:
            return
        if len(handle.ahead) > _MOST_AHEAD:
            handle.ahead = {wanted.offset: False}

        def done(_: object) -> None:
            # An error is raised again when this process makes the look-up itself.
            handle.ahead[wanted.offset] = True
            manifest = handle.reader.manifest
            handle.touched.add(manifest.segment_bases[manifest.segment_number(wanted.offset)])
            self.has_news = True

        self._look_ahead(handle.reader, partial(_look_up, wanted), done)

    def aborted(
        self, slot: int, published: PartitionSlot, offset: int, place: SegmentRange, upper: LogPosition
    ) -> list[tuple[int, int]] | None:
        handle = self._handle(slot, published)
        if handle is None or not handle.has(offset, upper):
            # The log was dropped since the place was found: nothing is sent rather than too much.
            return None
        # Mostly a thread has read it together with the place.
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
            log.error("can't read %s: %s", self._directory_of(slot, published), error)
        return KafkaError(code_of(error), str(error))

    def refresh_manifest(self, slot: int, published: PartitionSlot) -> None:
        self._forget(slot)
        if self._missing.get(slot) == published.generation:
            gone = StorageFailed("files that its owner names are not there")
            raise self.unreadable(slot, published, gone)
        self._missing[slot] = published.generation
        self._want(slot, published, ManifestRequest(slot, short_topic_id(published.topic_id), files_missing=True))

    def recheck_index(self, slot: int, published: PartitionSlot, error: WrongIndex) -> None:
        """An index contradicts the log: its owner compares both, and answers with a manifest. Raises `KafkaError` when
        that was done already.
        """
        generation = published.generation
        if self._asked.get(slot) == generation:
            return
        if self._wrong_indexes.get(slot) == (generation, error.base_offset):
            raise self.unreadable(slot, published, CorruptBatch(error.position, error.reason))
        short_id = short_topic_id(published.topic_id)
        self._want(slot, published, ManifestRequest(slot, short_id, False, error.base_offset, generation))
        if self._asked.get(slot) == generation:
            self._wrong_indexes[slot] = (generation, error.base_offset)

    def epoch_end(self, slot: int, published: PartitionSlot, epoch: int) -> tuple[int, int] | None:
        reader = self.reader(slot, published)
        if reader is None:
            return None
        leader_epoch = published.leader_epoch if published.role == ROLE_LEADER else NO_LEADER_EPOCH
        return reader.epoch_end_offset(epoch, published.leo_offset, leader_epoch)

    def reader(self, slot: int, published: PartitionSlot) -> LogReader | None:
        """A reader with the owner's manifest; None when that was requested and is not here yet."""
        handle = self._handle(slot, published)
        if handle is not None and handle.is_whole:
            return handle.reader
        self._want(slot, published)
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
        """Whether the place may be in another file of the same name: it was found in an earlier pass of the loop, and
        compaction has replaced sealed segments since.
        """
        if handle.reader.manifest.segment_bases[-1] == place.segment_base:
            return False
        return not handle.generation == published.generation == self._generation_of(slot)

    def arrived(self, message: Manifest, published: PartitionSlot) -> None:
        """Take the owner's answer. If it is outdated, it is requested again when needed."""
        self.has_news = True
        self._asked.pop(message.slot, None)
        is_current = message.found and message.generation == published.generation
        if is_current and short_topic_id(published.topic_id) == message.short_id:
            self._put(message.slot, published, _unpack(message), is_whole=True)

    def owner_lost(self) -> None:
        """A worker died: it will not answer open requests."""
        self._asked.clear()

    def forget(self, slot: int) -> None:
        """The partition is gone or moved: close its files, so that their disk space becomes free."""
        self._forget(slot)
        self._asked.pop(slot, None)
        self._unreadable.pop(slot, None)
        self._missing.pop(slot, None)
        self._wrong_indexes.pop(slot, None)

    def files_removed(self, slots: list[int], table: SlotReader) -> None:
        """Their owner has unlinked files: close those of earlier generations."""
        for slot in slots:
            handle = self._handles.get(slot)
            if handle is not None and handle.generation != table.read(slot).generation:
                self._forget(slot)

    def _handle(self, slot: int, published: PartitionSlot) -> LogHandle | None:
        handle = self._handles.get(slot)
        if handle is None or handle.generation != published.generation or handle.topic_id != published.topic_id:
            newest = LogManifest(generation=published.generation, segment_bases=(published.hw_segment,), epochs=())
            handle = self._put(slot, published, newest, is_whole=False)
        return handle

    def _put(self, slot: int, published: PartitionSlot, manifest: LogManifest, *, is_whole: bool) -> LogHandle | None:
        before = self._forget(slot)
        directory = self._directory_of(slot, published)
        if directory is None:
            # Its topic is deleted: the owner's answer or a client's request was under way at that time.
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

    def _want(self, slot: int, published: PartitionSlot, question: ManifestRequest | None = None) -> None:
        if self._asked.get(slot) != published.generation and published.owner >= 0:
            question = question or ManifestRequest(slot, short_topic_id(published.topic_id))
            if self._ask(published.owner, pack_control(question)):
                self._asked[slot] = published.generation


def _locate(reader: LogReader, wanted: RequestedRecords) -> Extent:
    return reader.locate(wanted.offset, wanted.upper, wanted.max_bytes, minimum_one_batch=wanted.whole)


def _look_up(wanted: RequestedRecords, reader: LogReader) -> None:
    extent = _locate(reader, wanted)
    if wanted.isolation == TXN_COMMITTED:
        reader.aborted(wanted.offset, extent, wanted.upper)


def _unpack(message: Manifest) -> LogManifest:
    bases, epochs = message.segment_bases, message.epochs
    return LogManifest(
        generation=message.generation,
        segment_bases=tuple(bases),
        epochs=tuple((epoch, start) for epoch, start in epochs),
        rewrites=message.rewrites,
    )
