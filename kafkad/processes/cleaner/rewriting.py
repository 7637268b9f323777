"""One compaction pass over one log, from the grant to the last swap. Imported for the first pass.

A generator: it yields the bytes of each step, the future that it waits for, or a swap for the owner. While a group of
segments is synced and swapped, the next group is written; while a thread writes, the next batch is created. Returns the
offset up to which the log is clean.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from kafkad.adapters.files.cache_neutral_reads import CacheNeutralFiles, drop_from_memory
from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.free_space import measure_free_space
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.adapters.files.write_behind import WriteBehindFiles
from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.core.cleaning.batch_retention import LastRecord
from kafkad.core.cleaning.cleaned_segment import cleaned_files
from kafkad.core.cleaning.cleaning_pass import CleaningPass, PassFigures
from kafkad.core.cleaning.sources import SourceSegment
from kafkad.core.cleaning.uncleanable import PassAbandoned
from kafkad.core.cleanup import FilterLimits
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.layout import CLEANED, LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from kafkad.core.log.segments.transaction_index import AbortedTransaction, unpack_entries
from kafkad.core.ports import LogFile, NoSpaceLeft, SegmentStore
from kafkad.processes.cleaner.planning import PlannedRewrite
from kafkad.processes.cleaner.time_limit import BoundedFilter, in_time
from kafkad.wire.processes.cleaning_messages import (
    CleaningGranted,
    SwapRequest,
    unpack_last_records,
)

_OPEN_FILES = 16
_NO_MORE_KEYS = 16
_MOST_UNFINISHED = 1
"""Running writes while the next batch is created."""


class PassLimits(NamedTuple):
    """The share of this process in the limits of `log.cleaner.*`."""

    map_bytes: int
    load_factor: float
    window_bytes: int


class Swap(NamedTuple):
    """A request to the owner, and its result: whether the swap was done."""

    request: SwapRequest
    done: Future[bool]


Progress = int | Future[None] | Future[bool] | Swap
Steps = Generator[Progress, None, tuple[int, PassFigures]]


def rewrite_steps(
    planned: PlannedRewrite,
    granted: CleaningGranted,
    directory: str,
    limits: PassLimits,
    threads: HelperThreads,
    wall_ms: int,
) -> Steps:
    """Raises `UncleanableLog`, `StorageFailed`, `PassAbandoned`, `CallTooLong`, and exceptions of the policy."""
    reading = FileCache(_OPEN_FILES, read_only=True)
    sources = CacheNeutralFiles(directory, reading)
    destination = WriteBehindFiles(directory, FileCache(_OPEN_FILES))
    try:
        cleaning = _begin(planned, granted, sources, destination, limits, wall_ms)
        yield from cleaning.learn()
        last: _WrittenGroup | None = None
        for group in cleaning.groups():
            _require_space(directory, group)
            sources.take_is_cold()
            try:
                cleaned = yield from _written(cleaning.clean(group), last, destination, group[0].base_offset)
            except Exception:
                # The previous group is complete.
                yield from _finish(last)
                raise
            destination.close_files()
            reading.close_all()
            log_path = f"{directory}/{file_name(cleaned.base_offset, LOG, CLEANED)}"
            is_cold = sources.take_is_cold()
            synced = threads.submit(_sync, cleaned_files(destination, cleaned), log_path if is_cold else None)
            last = _WrittenGroup(synced, _swap(granted, [source.base_offset for source in group], cleaned))
        yield from _finish(last)
        return cleaning.end_offset, cleaning.figures
    except FileNotFoundError as error:
        raise PassAbandoned(f"a segment was removed meanwhile: {error}") from error
    finally:
        reading.close_all()
        destination.close()


def _begin(
    planned: PlannedRewrite,
    granted: CleaningGranted,
    sources: SegmentFiles,
    destination: SegmentFiles,
    limits: PassLimits,
    wall_ms: int,
) -> CleaningPass:
    end = planned.effect.first_uncleanable_offset
    keys = FilterLimits(
        most_bytes=limits.map_bytes,
        load_factor=limits.load_factor,
        most_keys=end - granted.first_dirty_offset + _NO_MORE_KEYS,
        seed=int.from_bytes(os.urandom(8), "little"),
    )
    rows = [
        SourceSegment(
            base_offset=row.base_offset,
            size=row.size,
            index_bytes=row.index_bytes,
            time_index_bytes=row.time_index_bytes,
        )
        for row in granted.sources
    ]
    last_records = {
        producer_id: LastRecord(None if last_offset < 0 else last_offset, epoch)
        for producer_id, last_offset, epoch in unpack_last_records(granted.last_records)
    }
    return CleaningPass(
        sources.open,
        destination,
        planned.settings,
        rows,
        BoundedFilter(in_time(partial(planned.effect.record_filter, keys))),
        first_dirty_offset=granted.first_dirty_offset,
        first_uncleanable_offset=end,
        aborted=_aborted(sources, [*(row.base_offset for row in granted.sources), *granted.later]),
        last_records=last_records,
        now_ms=wall_ms,
        window_bytes=limits.window_bytes,
    )


def _aborted(store: SegmentStore, bases: list[int]) -> list[AbortedTransaction]:
    """The aborted transactions of all these segments: a marker may be far behind its transaction."""
    found: list[AbortedTransaction] = []
    for base in bases:
        name = file_name(base, TXN_INDEX)
        if store.has(name):
            found += unpack_entries(store.read(name))
    return found


class _WrittenGroup:
    """A written group that is being synced, then swapped. Its steps raise `StorageFailed`, `PassAbandoned`."""

    def __init__(self, synced: Future[None], request: SwapRequest) -> None:
        self._synced = synced
        self._swap = Swap(request, Future())
        self._is_requested = False

    def swaps(self) -> Iterator[Swap]:
        """The swap to request now, if any."""
        if not self._is_requested and self._synced.done():
            self._synced.result()
            self._is_requested = True
            yield self._swap
        if self._swap.done.done() and not self._swap.done.result():
            raise PassAbandoned("the owner of the partition rejected the swap")

    @property
    def is_swapped(self) -> bool:
        return self._swap.done.done()

    @property
    def awaited(self) -> Future[None] | Future[bool]:
        return self._swap.done if self._is_requested else self._synced


def _finish(group: _WrittenGroup | None) -> Iterator[Progress]:
    """Wait until it is swapped in."""
    while group is not None and not group.is_swapped:
        yield from group.swaps()
        if not group.awaited.done():
            yield group.awaited
    if group is not None:
        yield from group.swaps()


def _write_beside(
    steps: Generator[int, None, CleanedFiles], last: _WrittenGroup | None, destination: WriteBehindFiles
) -> Generator[Progress, None, CleanedFiles]:
    while True:
        while (awaited := destination.awaited(_MOST_UNFINISHED)) is not None:
            yield awaited
        try:
            yield next(steps)
        except StopIteration as finished:
            cleaned: CleanedFiles = finished.value
            return cleaned
        if last is not None:
            yield from last.swaps()


def _written(
    steps: Generator[int, None, CleanedFiles],
    last: _WrittenGroup | None,
    destination: WriteBehindFiles,
    base_offset: int,
) -> Generator[Progress, None, CleanedFiles]:
    """Write a group while the last one is synced and swapped, and wait for both. Unlink the files after a failure."""
    is_complete = False
    try:
        cleaned = yield from _write_beside(steps, last, destination)
        # The group is synced and swapped only when all writes have succeeded.
        while (awaited := destination.awaited()) is not None:
            yield awaited
        yield from _finish(last)
        is_complete = True
        return cleaned
    finally:
        if not is_complete:
            for kind in (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX):
                destination.unlink(file_name(base_offset, kind, CLEANED))


def _require_space(directory: str, group: Sequence[SourceSegment]) -> None:
    """Raises `NoSpaceLeft` before the cleaned segments fill the disk, which others write to."""
    required = sum(source.size + source.index_bytes + source.time_index_bytes for source in group)
    free = measure_free_space(directory).free_bytes
    if free < required:
        bases = f"{group[0].base_offset} to {group[-1].base_offset}"
        raise NoSpaceLeft(f"{directory} has {free} bytes of free space, and segments {bases} may take {required}")


def _sync(files: tuple[LogFile, ...], cold_log: str | None) -> None:
    """`cold_log` was created from uncached segments: drop it from the page cache as well."""
    for file in files:
        file.sync()
    if cold_log is not None:
        drop_from_memory(cold_log)


def _swap(granted: CleaningGranted, sources: list[int], cleaned: CleanedFiles) -> SwapRequest:
    return SwapRequest(
        granted.slot,
        granted.grant,
        sources,
        cleaned.size,
        cleaned.index_bytes,
        cleaned.time_index_bytes,
        cleaned.txn_index_bytes,
        cleaned.max_timestamp,
        cleaned.offset_of_max_timestamp,
        cleaned.first_timestamp,
    )
