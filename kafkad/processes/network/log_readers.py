"""The logs as a network process reads them: one reader for a slot and generation, its files, its manifest.

The newest segment needs no manifest: its name is in the slot. For anything older the owner is asked once a
generation, and whoever needs it waits (`None`). A handle is (slot, generation, topic id): when one of them changed,
the reader is made anew.
"""

import logging
from collections.abc import Callable

from kafkad.adapters.file_cache import FileCache
from kafkad.adapters.segment_files import SegmentFile, SegmentFiles
from kafkad.core.errors import KafkaError
from kafkad.core.log.manifest import LogManifest
from kafkad.core.log.reading import Extent, LogReader, ManifestStale
from kafkad.core.partition_slot import PartitionSlot, SlotReader
from kafkad.core.ports import StorageFailed
from kafkad.core.types import LogPosition
from kafkad.handlers.damage import DAMAGE, code_of
from kafkad.handlers.fetch import Place
from kafkad.wire.descriptors import Manifest, ManifestWanted, pack_control, topic_tag
from kafkad.wire.fetch import FileSlice

log = logging.getLogger(__name__)

_EMPTY = Place(0, 0, 0)


class _Handle:
    """A partition's reader; `is_whole` once it has the owner's manifest instead of the newest segment alone."""

    __slots__ = ("generation", "is_whole", "reader", "topic_id")

    def __init__(self, reader: LogReader, topic_id: bytes, generation: int, *, is_whole: bool) -> None:
        self.reader = reader
        self.topic_id = topic_id
        self.generation = generation
        self.is_whole = is_whole

    def has(self, offset: int, upper: LogPosition) -> bool:
        """Whether everything from `offset` to `upper` is in segments that the reader knows."""
        bases = self.reader.manifest.segment_bases
        return self.is_whole or (bases[0] <= offset and upper.segment_base in bases)


class LogReaders:
    """Implements the `Logs` port of the fetch handler, and hands readers to the look-ups by time and epoch.

    `directory_of` names the directory of a slot's partition, None when the metadata has none in that slot any more;
    `ask` sends a control frame to an owner.
    """

    def __init__(
        self,
        files: FileCache,
        directory_of: Callable[[int, PartitionSlot], str | None],
        ask: Callable[[int, bytes], bool],
    ) -> None:
        self._files = files
        self._directory_of = directory_of
        self._ask = ask
        self._handles: dict[int, _Handle] = {}
        self._asked: dict[int, int] = {}
        """Generation asked for, by slot."""
        self._unreadable: dict[int, int] = {}
        """Generation at which a slot's files turned out to be damaged: that is said once."""
        self._missing: dict[int, int] = {}
        """Generation whose files were not there: its manifest is asked for once more, and then given up."""

    def locate(
        self, slot: int, published: PartitionSlot, offset: int, upper: LogPosition, max_bytes: int, *, whole: bool
    ) -> Place | None:
        handle = self._handle(slot, published)
        if handle is None:
            return _EMPTY
        if not handle.has(offset, upper):
            self._want(slot, published)
            return None
        try:
            extent = handle.reader.locate(offset, upper, max_bytes, minimum_one_batch=whole)
        except ManifestStale:
            self.outdated(slot, published)
            return None
        except KafkaError:
            # Published and files part for a moment around a truncation: nothing to read now.
            return _EMPTY
        except DAMAGE as error:
            raise self.unreadable(slot, published, error) from error
        return Place(*extent)

    def aborted(
        self, slot: int, published: PartitionSlot, offset: int, place: Place, upper: LogPosition
    ) -> list[tuple[int, int]] | None:
        handle = self._handle(slot, published)
        if handle is None or not handle.has(offset, upper):
            # Forgotten since the place was found: nothing is sent rather than too much.
            return None
        try:
            return handle.reader.aborted(offset, Extent(*place), upper)
        except ManifestStale:
            self.outdated(slot, published)
            return None
        except DAMAGE as error:
            raise self.unreadable(slot, published, error) from error

    def unreadable(self, slot: int, published: PartitionSlot, error: Exception) -> KafkaError:
        if self._unreadable.get(slot) != published.generation:
            self._unreadable[slot] = published.generation
            log.error("can't read %s: %s", self._directory_of(slot, published), error)
        return KafkaError(code_of(error), str(error))

    def outdated(self, slot: int, published: PartitionSlot) -> None:
        self._forget(slot)
        if self._missing.get(slot) == published.generation:
            gone = StorageFailed("files that its owner names are not there")
            raise self.unreadable(slot, published, gone)
        self._missing[slot] = published.generation
        self._want(slot, published, files_missing=True)

    def epoch_end(self, slot: int, published: PartitionSlot, epoch: int) -> tuple[int, int] | None:
        reader = self.reader(slot, published)
        return reader.epoch_end_offset(epoch, published.leo_offset) if reader is not None else None

    def reader(self, slot: int, published: PartitionSlot) -> LogReader | None:
        """A reader with the owner's manifest; None: it has been asked for."""
        handle = self._handle(slot, published)
        if handle is not None and handle.is_whole:
            return handle.reader
        self._want(slot, published)
        return None

    def open(self, slot: int, published: PartitionSlot, place: Place) -> FileSlice | None:
        handle = self._handles.get(slot)
        if handle is None:
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
        return FileSlice(fd, place.position, place.length, file.unpin)

    def arrived(self, message: Manifest, published: PartitionSlot) -> None:
        """The owner's answer. One that is no longer true is asked for again when somebody needs it."""
        self._asked.pop(message.slot, None)
        is_current = message.found and message.generation == published.generation
        if is_current and topic_tag(published.topic_id) == message.tag:
            self._put(message.slot, published, _unpack(message), is_whole=True)

    def owner_lost(self) -> None:
        """A worker died: what it was asked will not be answered."""
        self._asked.clear()

    def forget(self, slot: int) -> None:
        """The partition is gone or moved: its files are not kept from being freed."""
        self._forget(slot)
        self._asked.pop(slot, None)
        self._unreadable.pop(slot, None)
        self._missing.pop(slot, None)

    def files_removed(self, slots: list[int], table: SlotReader) -> None:
        """Their owner has unlinked files: what is held of a generation before this one is let go."""
        for slot in slots:
            handle = self._handles.get(slot)
            if handle is not None and handle.generation != table.read(slot).generation:
                self._forget(slot)

    def _handle(self, slot: int, published: PartitionSlot) -> _Handle | None:
        handle = self._handles.get(slot)
        if (
            handle is None
            or handle.generation != published.generation
            or handle.topic_id != published.topic_id
        ):
            newest = LogManifest(generation=published.generation, segment_bases=(published.hw_segment,), epochs=())
            handle = self._put(slot, published, newest, is_whole=False)
        return handle

    def _put(self, slot: int, published: PartitionSlot, manifest: LogManifest, *, is_whole: bool) -> _Handle | None:
        self._forget(slot)
        directory = self._directory_of(slot, published)
        if directory is None:
            # Its topic is deleted: an answer of the owner, or a question of a client, has crossed that news.
            return None
        store = SegmentFiles(directory, self._files)
        handle = _Handle(
            LogReader(store, manifest), published.topic_id, published.generation, is_whole=is_whole
        )
        self._handles[slot] = handle
        return handle

    def _forget(self, slot: int) -> None:
        handle = self._handles.pop(slot, None)
        if handle is not None:
            handle.reader.close()

    def _want(self, slot: int, published: PartitionSlot, *, files_missing: bool = False) -> None:
        if self._asked.get(slot) != published.generation and published.owner >= 0:
            question = ManifestWanted(slot, topic_tag(published.topic_id), files_missing)
            if self._ask(published.owner, pack_control(question)):
                self._asked[slot] = published.generation


def _unpack(message: Manifest) -> LogManifest:
    bases, epochs = message.segment_bases, message.epochs
    return LogManifest(
        generation=message.generation,
        segment_bases=tuple(bases),
        epochs=tuple((epoch, start) for epoch, start in epochs),
    )
