"""How does a partition directory become a `PartitionLog`?

First an interrupted roll, swap or deletion is finished or undone. After a clean stop the files are trusted, and only
the end of the last segment is searched. Otherwise everything from the recovery point on is checked, and the indexes
before it are checked for plausibility. A crash while loading leaves a directory that loads to the same log.
"""

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field

from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.producers.producer_state import ProducerStates
from kafkad.core.log.producers.replay import rebuild_steps
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.records.old_formats import refuse_old_message
from kafkad.core.log.recovery.crash_recovery import Progress, check_segment, recover_segments
from kafkad.core.log.recovery.leftovers import finish_interrupted
from kafkad.core.log.recovery.lost_state import find_epochs, has_lost_producers
from kafkad.core.log.recovery.state_files import (
    note_aborted_counts,
    read_aborted_counts,
    read_epochs,
    snapshot_offsets,
    write_epochs,
)
from kafkad.core.log.segments.index_checks import find_damaged_index, find_damaged_txn_index
from kafkad.core.log.segments.layout import (
    LOG,
    OFFSET_INDEX,
    PRODUCER_SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    parse_file_name,
)
from kafkad.core.log.segments.log_segments import Segments
from kafkad.core.log.segments.segment import Segment
from kafkad.core.log.segments.transaction_index import TO_BE_REBUILT
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import SegmentStore
from kafkad.core.types import NOT_CLEANED, TopicPartition

SEGMENTS_A_STEP = 64
_BEGUN = Progress(0, 1)
_CHECKED = Progress(1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What is known of a log before its directory is read."""

    partition: TopicPartition
    config: LogConfig
    was_clean: bool
    now_ms: int
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int = NOT_CLEANED
    roll_jitter: float = 0.0
    """By which share of the current `segment.jitter.ms` the log's segments roll earlier: 0 to 1."""
    producer_expiration_ms: int = field(default=86_400_000)
    verifies_transactions: bool = True


def load_steps(store: SegmentStore, request: LoadRequest) -> Generator[Progress, None, PartitionLog]:
    """Load in steps: a megabyte of recovery, or some dozens of segments. `OldMessageFormat` comes before any change."""
    sizes = store.sizes()
    if len(sizes) > SEGMENTS_A_STEP:
        yield _BEGUN
    _refuse_old_format(store, sizes)
    sizes = finish_interrupted(store, sizes)
    segments = yield from _find_segments(store, request, sizes)
    epochs_on_file = read_epochs(store, sizes)
    epochs = LeaderEpochCache(epochs_on_file or ())
    index_from: int | None = None
    if request.was_clean:
        index_from = yield from _repair(store, segments, epochs, sizes)
    elif len(segments):
        index_from = yield from _recover(store, segments, epochs, sizes, request.recovery_point)
    end = segments.active.next_offset() if len(segments) else -1
    if epochs_on_file is None and any(segment.size for segment in segments):
        yield from find_epochs(segments, epochs)
    # A new partition has no files yet.
    if max(end, 0) < max(request.recovery_point, request.log_start_offset):
        yield Progress(0, 0, _what_is_gone(end, request))
    if end < request.log_start_offset:
        _start_anew(store, segments, request)
        end = request.log_start_offset
        epochs.clear()
    log_start = max(request.log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(log_start)
    if epochs.entries != (epochs_on_file or []) or (epochs_on_file is None and end > log_start):
        write_epochs(store, epochs, is_first=False)
    segments.active.aborted.truncate_to(end)
    producers = ProducerStates(
        request.partition,
        expiration_ms=request.producer_expiration_ms,
        verifies_transactions=request.verifies_transactions,
    )
    snapshots = yield from _load_producers(store, request, segments, producers, sizes, log_start, end, index_from)
    note_aborted_counts(store, segments)
    return PartitionLog(
        store,
        request.config,
        segments,
        log_start_offset=log_start,
        log_end_offset=end,
        recovery_point=end if request.was_clean else min(request.recovery_point, end),
        epochs=epochs,
        producers=producers,
        snapshot_offset=_snapshot_offset(request, snapshots, log_start, end),
        cleaned_offset=min(request.cleaned_offset, end),
    )


def _snapshot_offset(request: LoadRequest, snapshots: Collection[int], log_start: int, end: int) -> int:
    """Up to where the snapshots on file are known to be right."""
    if not snapshots and (request.was_clean or end == log_start):
        return end  # there is nothing to remember
    return max(snapshots, default=-1) if request.was_clean else -1


def _refuse_old_format(store: SegmentStore, sizes: Mapping[str, int]) -> None:
    """Check the first batch, where the oldest messages are; recovery finds old formats further on."""
    # Names are padded with zeros: their order is that of their offsets.
    logs = [name for name, size in sizes.items() if size and name.endswith(LOG) and parse_file_name(name)]
    if logs:
        name = min(logs)
        refuse_old_message(store.open(name), name, 0, sizes[name])


def _what_is_gone(end: int, request: LoadRequest) -> str:
    """The log ends before its recovery point: its files were changed from outside, or a checkpoint is wrong."""
    found = f"its log ends at {end}" if end >= 0 else "it has no segment"
    text = f"{found}, where the checkpoints say that it was synced up to {request.recovery_point}"
    if end >= request.log_start_offset:
        return text
    return f"{text} and begins at {request.log_start_offset}: it begins anew there, without what is left"


def _find_segments(
    store: SegmentStore, request: LoadRequest, sizes: dict[str, int]
) -> Generator[Progress, None, Segments]:
    """One segment per `.log` file; indexes without a log are removed, missing ones made."""
    parsed = {name: parse_file_name(name) for name in sizes}
    bases = sorted(file.base_offset for file in parsed.values() if file is not None and file.kind == LOG)
    known = set(bases)
    for name, file in parsed.items():
        if file is not None and file.base_offset not in known and file.kind != PRODUCER_SNAPSHOT:
            yield Progress(0, 0, f"there is no {file_name(file.base_offset, LOG)}: {name} is removed")
            store.unlink(name)
    segments = Segments(store)
    segments.aborted_on_file = read_aborted_counts(store, sizes)
    for number, base in enumerate(bases, 1):
        if number % SEGMENTS_A_STEP == 0:
            yield _BEGUN
        index_names = (file_name(base, OFFSET_INDEX), file_name(base, TIME_INDEX))
        txn_index, log_size = file_name(base, TXN_INDEX), sizes[file_name(base, LOG)]
        txn_index_size = sizes.get(txn_index)
        if log_size and index_names[0] not in sizes and txn_index_size is None:
            # Whoever removed the index may have removed the one of aborted transactions too, which most segments lack.
            store.replace(txn_index, TO_BE_REBUILT)
            txn_index_size = len(TO_BE_REBUILT)
        for name in index_names:
            if name not in sizes:
                store.open(name, create=True)
        segment = Segment(
            store,
            request.config,
            base,
            size=log_size,
            now_ms=request.now_ms,
            roll_jitter=request.roll_jitter,
            index_sizes=(sizes.get(index_names[0], 0), sizes.get(index_names[1], 0)),
            txn_index_size=txn_index_size,
        )
        segments.add(segment)
    return segments


def _repair(
    store: SegmentStore, segments: Segments, epochs: LeaderEpochCache, sizes: dict[str, int]
) -> Generator[Progress, None, int | None]:
    """After a clean stop: rebuild the indexes that are missing or implausible, and recover a log whose end is not
    found. Returns the base offset of the first segment whose transaction index must be rebuilt, if any.
    """
    counts = segments.aborted_on_file
    index_from = yield from _rebuild_damaged(store, list(segments), epochs, sizes, counts, looks_inside=False)
    if len(segments) and not _finds_end(segments.active):
        active = segments.active
        if active.wrong_index:
            yield Progress(0, active.size, f"{active.wrong_index}: the indexes of the segment are built anew")
        yield from recover_segments(store, segments, epochs, active.base_offset)
        return active.base_offset if index_from is None else index_from
    return index_from


def _finds_end(segment: Segment) -> bool:
    """Whether the index and the batches behind its last entry lead to the end of the segment."""
    try:
        segment.next_offset()
    except CorruptBatch:
        return False
    return not segment.wrong_index


def _recover(
    store: SegmentStore, segments: Segments, epochs: LeaderEpochCache, sizes: dict[str, int], recovery_point: int
) -> Generator[Progress, None, int | None]:
    """After any other stop: check the log from the recovery point on, and the indexes before it.

    Returns the same as `_repair`.
    """
    unflushed_base = segments.from_offset(recovery_point)[0].base_offset
    flushed = [segment for segment in segments if segment.base_offset < unflushed_base]
    counts = segments.aborted_on_file
    index_from = yield from _rebuild_damaged(store, flushed, epochs, sizes, counts, looks_inside=True)
    yield from recover_segments(store, segments, epochs, recovery_point)
    return unflushed_base if index_from is None else index_from


def _rebuild_damaged(
    store: SegmentStore,
    segments: Iterable[Segment],
    epochs: LeaderEpochCache,
    sizes: dict[str, int],
    aborted_counts: Mapping[int, int],
    *,
    looks_inside: bool,
) -> Generator[Progress, None, int | None]:
    """Returns the base offset of the first segment whose transaction index must be rebuilt, if any."""
    index_from: int | None = None
    for number, segment in enumerate(segments, 1):
        if number % SEGMENTS_A_STEP == 0:
            yield _BEGUN
        if not segment.size and segment.index_bytes != (0, 0):
            name = file_name(segment.base_offset, LOG)
            yield Progress(0, 0, f"{name} is empty and its indexes are not: the records that were in it are lost")
            segment.rebuild_started()
        damage = find_damaged_index(store, segment, sizes, looks_inside=looks_inside) if segment.size else ""
        if damage:
            yield Progress(0, segment.size, f"{damage}: the indexes of the segment are built anew")
            yield from _rebuild_indexes(segment, epochs)
        damage = ""
        if index_from is None:
            damage = find_damaged_txn_index(store, segment, sizes, aborted_counts.get(segment.base_offset, 0))
        if index_from is None and segment.size and file_name(segment.base_offset, OFFSET_INDEX) not in sizes:
            # That of aborted transactions is to be rebuilt as well.
            index_from = segment.base_offset
        if damage:
            index_from = segment.base_offset
            yield Progress(0, segment.size, f"{damage}: it is built anew, with those of the later segments")
    return index_from


def _rebuild_indexes(segment: Segment, epochs: LeaderEpochCache) -> Generator[Progress, None, None]:
    """Rebuild indexes and sync them, because they are not checked again before they are used."""
    size = segment.size
    for done in check_segment(segment, epochs):
        yield Progress(done, size)
    segment.complete()
    segment.size = size
    for file in segment.sync_files():
        file.sync()


def _start_anew(store: SegmentStore, segments: Segments, request: LoadRequest) -> None:
    """Without a segment at or above the log start, create an empty one at the log start."""
    for name in segments.remove_after(-1):
        store.unlink(name)
    segments.add(
        Segment.create(
            store,
            request.config,
            request.log_start_offset,
            now_ms=request.now_ms,
            roll_jitter=request.roll_jitter,
        )
    )


def _load_producers(
    store: SegmentStore,
    request: LoadRequest,
    segments: Segments,
    producers: ProducerStates,
    names: Collection[str],
    log_start: int,
    end: int,
    index_from: int | None,
) -> Generator[Progress, None, list[int]]:
    """Fill `producers`; returns the offsets of the snapshots that may stay."""
    snapshots: list[int] = []
    bases = set(segments.base_offsets)
    on_file = snapshot_offsets(names)
    newest = max((offset for offset in on_file if offset <= end), default=-1)
    for snapshot in on_file:
        if snapshot <= end and (snapshot in bases or snapshot == newest):
            snapshots.append(snapshot)
        else:
            store.unlink(file_name(snapshot, PRODUCER_SNAPSHOT))
    if request.was_clean and not snapshots and index_from is None:
        # Kafka writes a snapshot at each clean stop: without one there were no producers to remember, or it was lost.
        if end <= log_start or not has_lost_producers(segments, request.now_ms, request.producer_expiration_ms):
            return []
        yield Progress(0, 0, "the snapshot of its producers is gone: their state is made anew from the batches")
    if end > log_start or snapshots:
        steps = rebuild_steps(
            store, segments, producers, snapshots, log_start, end, request.now_ms, index_from=index_from
        )
        for _ in steps:
            yield _CHECKED
    return snapshots
