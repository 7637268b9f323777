"""A compactor with real files, and a test in the place of the owner of the log."""

import select
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.cleaning.cleanable import cleanable_range
from kafkad.core.cleaning.latest_of_each_key import latest_of_each_key
from kafkad.core.cleaning.record_filter import RecordFilter
from kafkad.core.cleanup import FilterLimits, LogSummary, RewriteSegments
from kafkad.core.controller.image import Partition, Topic
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.removal import segment_summaries
from kafkad.core.log.segments.replacement import are_current
from kafkad.core.metrics.catalogue import BLOCK_WORDS
from kafkad.processes.cleaner.compactor import Compactor
from kafkad.processes.cleaner.early_checks import EarlyChecks
from kafkad.processes.cleaner.planning import PlannedRewrite
from kafkad.processes.cleaner.unfinished_work import UnfinishedWork
from kafkad.wire.processes.cleaning_messages import (
    CleaningEnded,
    CleaningGranted,
    CleaningRequest,
    SourceRow,
    Swapped,
    SwapRequest,
)
from kafkad.wire.processes.descriptors import ControlMessage, unpack_control
from tests.config.configurations import configured
from tests.core.cleaning.cleaned_log import CONFIG
from tests.core.log.batches import NOW, load
from tests.core.log.segments.swapping import replace_segments

WORKER = ProcessKey("worker", 0)
WITHIN_MS = 60_000
GRANT = 7


class OwnedLog:
    """The log of partition 0 of a topic, as its owner has it."""

    def __init__(self, folder: Path, number: int, topic: str) -> None:
        self.path = folder / f"{topic}-0"
        self.path.mkdir()
        self.files = FileCache(16)
        self.slot = number
        self.topic = Topic(name=topic, id=UUID(int=number + 1), partitions=(), configs={})
        self.log = load(SegmentFiles(self.path, self.files), config=CONFIG)
        self.answers = True
        """Whether it makes the swaps that it is asked for."""
        self.ended: list[int] = []

    def append(self, *records: NewRecord, codec: Codec = Codec.NONE) -> None:
        data = build_batch(list(records), base_offset=self.log.log_end_offset, codec=codec)
        append_as_follower(self.log, memoryview(bytearray(data)), leader_epoch=0, now_ms=NOW)

    def write(self, count: int, *, keys: int = 5, size: int = 100) -> None:
        for number in range(count):
            self.append(NewRecord(NOW, b"key-%d" % (number % keys), b"%d" % number + bytes(size)))
        self.seal()

    def seal(self) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.log.roll(self.log.log_end_offset, NOW)
        self.log.flush()

    @property
    def summary(self) -> LogSummary:
        end = self.log.log_end_offset
        return LogSummary(
            topic=self.topic.name,
            partition=0,
            log_start_offset=self.log.log_start_offset,
            high_watermark=end,
            log_end_offset=end,
            cleanable_end=end,
            cleaned_offset=self.log.cleaned_offset,
            segments=tuple(segment_summaries(self.log)),
        )

    def planned(self, record_filter: Callable[[FilterLimits], RecordFilter] = latest_of_each_key) -> PlannedRewrite:
        partition = Partition(
            index=0,
            slot=self.slot,
            owner=0,
            log_dir=0,
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            replicas=(1,),
            isr=(1,),
        )
        found = cleanable_range(self.summary, CONFIG, NOW)
        effect = RewriteSegments(
            first_dirty_offset=found.first_dirty_offset,
            first_uncleanable_offset=found.first_uncleanable_offset,
            urgency=found.dirty_ratio,
            record_filter=record_filter,
            reason="a test",
        )
        return PlannedRewrite(self.slot, 0, self.topic, partition, CONFIG, "compact", effect)

    def grant(self, wanted: CleaningRequest) -> CleaningGranted:
        end = wanted.first_uncleanable_offset
        rows = [
            SourceRow(each.base_offset, each.size, *each.index_bytes)
            for each in self.log.segments
            if each.base_offset < end
        ]
        first_dirty = max(self.log.cleaned_offset, self.log.log_start_offset)
        return CleaningGranted(self.slot, GRANT, first_dirty, rows, [end], b"")

    def swap(self, wanted: SwapRequest) -> Swapped:
        sources = [each for each in self.log.segments if each.base_offset in wanted.sources]
        done = self.answers and len(sources) == len(wanted.sources) and are_current(self.log, sources)
        if done:
            replace_segments(self.log, sources, _cleaned(wanted))
        return Swapped(self.slot, GRANT, done)

    def end(self, ended: CleaningEnded) -> None:
        self.ended.append(ended.cleaned_offset)
        if ended.cleaned_offset >= 0:
            self.log.cleaned_offset = ended.cleaned_offset

    def left_over(self) -> list[str]:
        return [path.name for path in self.path.iterdir() if path.name.endswith((".cleaned", ".swap"))]


def _cleaned(wanted: SwapRequest) -> CleanedFiles:
    return CleanedFiles(
        base_offset=wanted.sources[0],
        size=wanted.size,
        index_bytes=wanted.index_bytes,
        time_index_bytes=wanted.time_index_bytes,
        txn_index_bytes=wanted.txn_index_bytes,
        max_timestamp=wanted.max_timestamp,
        offset_of_max_timestamp=wanted.offset_of_max_timestamp,
        first_timestamp=wanted.first_timestamp,
    )


class Compacting:
    """The compactor of a cleaner process, and the owner of its logs."""

    def __init__(self, folder: Path, *, cleaners: int = 1, **options: str) -> None:
        self._folder = folder
        self.block = [0] * BLOCK_WORDS
        self.logs: dict[int, OwnedLog] = {}
        self._heard: list[ControlMessage] = []
        self.early_checks = EarlyChecks()
        self.compactor = Compactor(
            self._configured(options),
            cleaners,
            self,
            self.block,
            UnfinishedWork(self.block),
            self.early_checks,
        )

    def configure(self, **options: str) -> None:
        self.compactor.config = self._configured(options)

    def _configured(self, options: Mapping[str, str]) -> BrokerConfig:
        named = [(name.replace("_", "."), text) for name, text in options.items()]
        return configured(("log.dirs", str(self._folder)), *named)

    def log(self, topic: str) -> OwnedLog:
        owned = OwnedLog(self._folder, len(self.logs), topic)
        self.logs[owned.slot] = owned
        return owned

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        assert peer == WORKER
        self._heard.append(unpack_control(frame))
        return True

    def answer(self) -> None:
        """What the compactor has sent is answered."""
        heard, self._heard = self._heard, []
        for message in heard:
            match message:
                case CleaningRequest():
                    self.compactor.handle(WORKER, self.logs[message.slot].grant(message))
                case SwapRequest():
                    self.compactor.handle(WORKER, self.logs[message.slot].swap(message))
                case CleaningEnded():
                    self.logs[message.slot].end(message)

    def step(self) -> None:
        """What one pass of the cleaner's loop does."""
        self.compactor.tick(1 << 60)
        self.answer()
        if self.compactor.next_step_ms is None and not self.compactor.is_idle and not self._heard:
            poll = select.poll()
            poll.register(self.compactor.doorbell, select.POLLIN)
            assert poll.poll(WITHIN_MS), "nothing rings"
            self.compactor.rung(0)

    def run(self) -> None:
        """Until there is nothing to do."""
        while not self.compactor.is_idle:
            self.step()
        self.answer()

    def close(self) -> None:
        self.compactor.close()
        for owned in self.logs.values():
            owned.files.close_all()
