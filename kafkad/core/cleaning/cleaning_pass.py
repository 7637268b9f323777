"""One pass over a log, in steps of one window each: learn the keys of the dirty segments, then rewrite the segments.

A window that decompresses to much data takes a step for each portion of `read_records`. The caller decides when to take
the next step, and may abandon the pass between two steps: its segments are not used before the owner has swapped them
in. Damage raises `UncleanableLog`, which names file and byte.
"""

import operator
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from kafkad.core.cleaning.batch_retention import LastRecords, judge_batches
from kafkad.core.cleaning.cleaned_segment import CleanedSegment
from kafkad.core.cleaning.record_filter import RecordFilter
from kafkad.core.cleaning.rewriting import rewrite
from kafkad.core.cleaning.sources import SourceSegment, group_segments
from kafkad.core.cleaning.transactions import CleanedTransactions
from kafkad.core.cleaning.uncleanable import UncleanableLog
from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.records import RecordColumns, read_records
from kafkad.core.columns.window import BatchWindow, read_window
from kafkad.core.log.records.batch import CODEC_MASK, Codec, CorruptBatch
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.log.segments.transaction_index import AbortedTransaction
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import LogFile, SegmentStore

WINDOW = 1024 * 1024
"""The bytes of a segment that are read in one step: about 30 ms of work, with decompression."""
_LARGE, _LARGER = 400, 4
"""For records of at least this many bytes, the windows of a step are this many times larger."""
_SLOW_CODECS = frozenset((Codec.GZIP, Codec.ZSTD))


@dataclass(slots=True)
class PassFigures:
    """The amounts that a pass has read and written, for the log line and the metrics of Kafka's CleanerStats."""

    map_bytes: int = 0
    map_records: int = 0
    bytes_read: int = 0
    records_read: int = 0
    bytes_written: int = 0
    records_written: int = 0
    dropped_without_key: int = 0
    map_utilization: float = 0.0


class CleaningPass:
    """`sources` are all segments below `first_uncleanable_offset`, from the first one of the log on."""

    def __init__(
        self,
        open_source: Callable[[str], LogFile],
        destination: SegmentStore,
        config: LogConfig,
        sources: Sequence[SourceSegment],
        record_filter: RecordFilter,
        *,
        first_dirty_offset: int,
        first_uncleanable_offset: int,
        aborted: Iterable[AbortedTransaction],
        last_records: LastRecords,
        now_ms: int,
        window_bytes: int = WINDOW,
    ) -> None:
        self._open_source = open_source
        self._destination = destination
        self._config = config
        self._sources = sources
        self._filter = record_filter
        self._first_dirty = first_dirty_offset
        self._round_end = first_uncleanable_offset
        self._aborted = tuple(aborted)
        self._last_records = last_records
        self._now_ms = now_ms
        self._window_bytes = window_bytes
        self._transactions = CleanedTransactions(self._aborted)
        self.figures = PassFigures()
        self.end_offset = first_dirty_offset
        """All keys before this offset are learned; set by `learn`."""

    def learn(self) -> Generator[int, None, None]:
        """Pass the dirty records to the filter; yields the bytes of each step."""
        yield from self._learn()
        self.figures.map_utilization = self._filter.utilization

    def _learn(self) -> Generator[int, None, None]:
        # A transaction that ended below the dirty segments has no marker there: later records are of other ones.
        transactions = CleanedTransactions(each for each in self._aborted if each.last_offset >= self._first_dirty)
        for number, source in enumerate(self._sources):
            following = self._end_of(number)
            if following <= self._first_dirty:
                continue
            for window in self._windows(source, following):
                with _damage_named(source):
                    upto = yield from self._learn_window(window, transactions)
                if upto:
                    self.end_offset = max(self.end_offset, int(window.last_offset[upto - 1]) + 1)
                if upto < len(window):
                    return
                yield window.end - window.position
            self.end_offset = following

    def _learn_window(self, window: BatchWindow, transactions: CleanedTransactions) -> Generator[int, None, int]:
        """The first batch that is not learned, or the number of batches. Yields 0 between portions."""
        if int(window.last_offset[-1]) < self._first_dirty:
            return len(window)
        relevant = ~(transactions.discardable(window) | window.is_control)
        self.figures.map_bytes += window.end - window.position
        for records in read_records(window, relevant):
            self.figures.map_records += len(records)
            upto = _checked_end(self._filter.learn(records, self._first_dirty), records)
            if upto < records.end_batch:
                return upto
            if records.end_batch < len(window):
                yield 0
        return len(window)

    def groups(self) -> list[tuple[SourceSegment, ...]]:
        """The groups of segments to rewrite, after `learn`."""
        some = [source for source in self._sources if source.base_offset < self.end_offset]
        return group_segments(some, self._config, self._round_end)

    def clean(self, group: Sequence[SourceSegment]) -> Generator[int, None, CleanedFiles]:
        """Write the retained records of a group as one segment; call it for the groups in order. Yields bytes."""
        segment = CleanedSegment(self._destination, self._config, group[0].base_offset)
        horizon_ms = self._now_ms + self._config.delete_retention_ms
        first = self._sources.index(group[0])
        for number, source in enumerate(group, first):
            for window in self._windows(source, self._end_of(number)):
                before = segment.size
                with _damage_named(source):
                    yield from self._clean_window(window, segment, horizon_ms)
                yield window.end - window.position + segment.size - before
        retained, self._transactions.retained = self._transactions.retained, []
        return segment.finish(retained, self._destination.modified_ms(file_name(group[-1].base_offset, LOG)))

    def _clean_window(
        self, window: BatchWindow, segment: CleanedSegment, horizon_ms: int
    ) -> Generator[int, None, None]:
        retention = judge_batches(window, self._transactions, self._last_records, self._round_end, self._now_ms)
        is_control = window.is_control
        for records in read_records(window, ~retention.is_discarded):
            of_control = is_control[records.batch]
            retained = of_control.copy()
            kept = _checked_flags(self._filter.retains(records, self.end_offset, self._now_ms), records)
            retained |= kept & ~of_control
            self.figures.dropped_without_key += int(np.count_nonzero(~retained & (records.key_size < 0)))
            batches = rewrite(records, retained, retention, horizon_ms=horizon_ms)
            before = segment.size
            segment.append(batches)
            self.figures.records_read += len(records)
            self.figures.records_written += batches.records
            self.figures.bytes_written += segment.size - before
            if records.end_batch < len(window):
                yield 0
        self.figures.bytes_read += window.end - window.position

    def _end_of(self, number: int) -> int:
        """The first offset above this source."""
        following = self._sources[number + 1 : number + 2]
        return following[0].base_offset if following else self._round_end

    def _windows(self, source: SourceSegment, end: int) -> Generator[BatchWindow, None, None]:
        file = self._open_source(file_name(source.base_offset, LOG))
        position, size = 0, self._window_bytes
        before = source.base_offset - 1
        while position < source.size:
            with _damage_named(source):
                window = read_window(file.read_at, position, source.size, size)
                first = int(window.headers["base_offset"][0])
                last = int(window.last_offset[-1])
                if first <= before or last >= end:
                    raise CorruptBatch(position, f"offsets {first} to {last}, expected {before + 1} to {end - 1}")
            yield window
            before = last
            position = window.end
            size = self._window_bytes * (_LARGER if _is_quick(window) else 1)


def _is_quick(window: BatchWindow) -> bool:
    """Large records without a slow codec: a window costs as much as some hundred records."""
    records = int(window.column("records_count").sum())
    if records * _LARGE >= window.end - window.position:
        return False
    return _SLOW_CODECS.isdisjoint((window.headers["attributes"] & CODEC_MASK).tolist())


@contextmanager
def _damage_named(source: SourceSegment) -> Iterator[None]:
    try:
        yield
    except CorruptBatch as error:
        name = file_name(source.base_offset, LOG)
        raise UncleanableLog(f"{name}, byte {error.position}: {error.reason}") from error


def _checked_end(end: object, records: RecordColumns) -> int:
    """The checked result of a plugin's filter. Raises TypeError, ValueError."""
    batch = operator.index(end)  # type: ignore[arg-type]
    if not records.first_batch <= batch <= records.end_batch:
        raise ValueError(f"expected a batch from {records.first_batch} to {records.end_batch}, got {batch}")
    return batch


def _checked_flags(flags: object, records: RecordColumns) -> Flags:
    """The checked result of a plugin's filter. Raises TypeError."""
    if not isinstance(flags, np.ndarray) or flags.dtype != np.bool_ or flags.shape != (len(records),):
        raise TypeError(f"expected a flag for each of {len(records)} records, got {repr(flags)[:200]}")
    return flags
