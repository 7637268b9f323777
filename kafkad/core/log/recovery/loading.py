"""How does a partition directory become a `PartitionLog`?

First an interrupted roll, swap or deletion is completed or undone. After a clean stop the files are trusted, and only
the end of the last segment is read. Otherwise all records from the recovery point on are checked, and earlier indexes
are checked for plausibility. A crash while loading leaves a directory that loads to the same log.
"""

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field

from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.producers.producer_state import ProducerStates
from kafkad.core.log.producers.replay import rebuild_steps
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.records.old_formats import reject_old_message
from kafkad.core.log.recovery.crash_recovery import (
    Progress,
    check_segment,
    find_epochs,
    has_lost_producers,
    recover_segments,
)
from kafkad.core.log.recovery.leftovers import finish_interrupted
from kafkad.core.log.recovery.state_files import (
    read_aborted_counts,
    read_epochs,
    snapshot_offsets,
    store_aborted_counts,
    write_epochs,
)
from kafkad.core.log.segments.index_repair import find_damaged_index, find_damaged_txn_index
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
_STARTED = Progress(0, 1)
_CHECKED = Progress(1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """The state of a log that is stored outside of its directory."""

    partition: TopicPartition
    config: LogConfig
    was_clean: bool
    now_ms: int
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int = NOT_CLEANED
    roll_jitter: float = 0.0
    """The share of the current `segment.jitter.ms` by which segments roll earlier: 0 to 1."""
    producer_expiration_ms: int = field(default=86_400_000)
    verifies_transactions: bool = True


def load_steps(store: SegmentStore, request: LoadRequest) -> Generator[Progress, None, PartitionLog]:
    """Load in steps: a megabyte of recovery, or dozens of segments. Raises `OldMessageFormat` before any change."""
    sizes = store.sizes()
    if len(sizes) > SEGMENTS_A_STEP:
        yield _STARTED
    _reject_old_format(store, sizes)
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
    # A new partition (both checkpoints 0) has no files yet.
    if max(end, 0) < max(request.recovery_point, request.log_start_offset):
        yield Progress(0, 0, _describe_loss(end, request))
    if end < request.log_start_offset:
        _start_empty(store, segments, request)
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
    store_aborted_counts(store, segments)
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
    """The offset up to which the snapshots on disk are valid."""
    if not snapshots and (request.was_clean or end == log_start):
        return end  # there are no producers
    return max(snapshots, default=-1) if request.was_clean else -1


def _reject_old_format(store: SegmentStore, sizes: Mapping[str, int]) -> None:
    """Check the first batch, the oldest one; recovery detects old formats in later batches."""
    # Names are padded with zeros: they sort by offset.
    logs = [name for name, size in sizes.items() if size and name.endswith(LOG) and parse_file_name(name)]
    if logs:
        name = min(logs)
        reject_old_message(store.open(name), name, 0, sizes[name])


def _describe_loss(end: int, request: LoadRequest) -> str:
    """Describe a log that ends before its recovery point: files were changed from outside, or a checkpoint is wrong."""
    found = f"the log ends at offset {end}" if end >= 0 else "the log has no segment"
    text = f"{found}, but the checkpoints have recovery point {request.recovery_point}"
    if end >= request.log_start_offset:
        return f"{text}: records are lost"
    return f"{text} and log start offset {request.log_start_offset}: the log starts empty there, without older segments"


def _find_segments(
    store: SegmentStore, request: LoadRequest, sizes: dict[str, int]
) -> Generator[Progress, None, Segments]:
    """One segment per `.log` file; indexes without a log are removed, missing indexes created."""
    parsed = {name: parse_file_name(name) for name in sizes}
    bases = sorted(file.base_offset for file in parsed.values() if file is not None and file.kind == LOG)
    logs = set(bases)
    for name, file in parsed.items():
        if file is not None and file.base_offset not in logs and file.kind != PRODUCER_SNAPSHOT:
            yield Progress(0, 0, f"removed {name}: {file_name(file.base_offset, LOG)} does not exist")
            store.unlink(name)
    segments = Segments(store)
    segments.stored_aborted_counts = read_aborted_counts(store, sizes)
    for number, base in enumerate(bases, 1):
        if number % SEGMENTS_A_STEP == 0:
            yield _STARTED
        index_names = (file_name(base, OFFSET_INDEX), file_name(base, TIME_INDEX))
        txn_index, log_size = file_name(base, TXN_INDEX), sizes[file_name(base, LOG)]
        txn_index_size = sizes.get(txn_index)
        if log_size and index_names[0] not in sizes and txn_index_size is None:
            # If the index was deleted, the transaction index may be too; most segments have none.
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
    """After a clean stop: rebuild missing or implausible indexes, and recover a log without a valid end. Returns the
    base offset of the first segment whose transaction index must be rebuilt, or None.
    """
    counts = segments.stored_aborted_counts
    index_from = yield from _rebuild_damaged(store, list(segments), epochs, sizes, counts, checks_entries=False)
    if len(segments) and not _has_valid_end(segments.active):
        active = segments.active
        if active.wrong_index:
            yield Progress(0, active.size, f"{active.wrong_index}: rebuilding the indexes of the segment")
        yield from recover_segments(store, segments, epochs, active.base_offset)
        return active.base_offset if index_from is None else index_from
    return index_from


def _has_valid_end(segment: Segment) -> bool:
    """Whether index and batches lead to the end of the segment."""
    try:
        segment.next_offset()
    except CorruptBatch:
        return False
    return not segment.wrong_index


def _recover(
    store: SegmentStore, segments: Segments, epochs: LeaderEpochCache, sizes: dict[str, int], recovery_point: int
) -> Generator[Progress, None, int | None]:
    """After an unclean stop: check the log from the recovery point on, and the indexes before it.

    Returns the same as `_repair`.
    """
    unflushed_base = segments.from_offset(recovery_point)[0].base_offset
    flushed = [segment for segment in segments if segment.base_offset < unflushed_base]
    counts = segments.stored_aborted_counts
    index_from = yield from _rebuild_damaged(store, flushed, epochs, sizes, counts, checks_entries=True)
    yield from recover_segments(store, segments, epochs, recovery_point)
    return unflushed_base if index_from is None else index_from


def _rebuild_damaged(
    store: SegmentStore,
    segments: Iterable[Segment],
    epochs: LeaderEpochCache,
    sizes: dict[str, int],
    aborted_counts: Mapping[int, int],
    *,
    checks_entries: bool,
) -> Generator[Progress, None, int | None]:
    """Returns the base offset of the first segment whose transaction index must be rebuilt, or None."""
    index_from: int | None = None
    for number, segment in enumerate(segments, 1):
        if number % SEGMENTS_A_STEP == 0:
            yield _STARTED
        if not segment.size and segment.index_bytes != (0, 0):
            name = file_name(segment.base_offset, LOG)
            yield Progress(0, 0, f"{name} is empty, but its indexes are not: the records of the segment are lost")
            segment.reset()
        damage = find_damaged_index(store, segment, sizes, checks_entries=checks_entries) if segment.size else ""
        if damage:
            yield Progress(0, segment.size, f"{damage}: rebuilding the indexes of the segment")
            yield from _rebuild_indexes(segment, epochs)
        damage = ""
        if index_from is None:
            damage = find_damaged_txn_index(store, segment, sizes, aborted_counts.get(segment.base_offset, 0))
        if index_from is None and segment.size and file_name(segment.base_offset, OFFSET_INDEX) not in sizes:
            # The transaction index must be rebuilt as well.
            index_from = segment.base_offset
        if damage:
            index_from = segment.base_offset
            yield Progress(0, segment.size, f"{damage}: rebuilding it and the transaction indexes of later segments")
    return index_from


def _rebuild_indexes(segment: Segment, epochs: LeaderEpochCache) -> Generator[Progress, None, None]:
    """Rebuild indexes and sync them: they are not checked again before use."""
    size = segment.size
    for done in check_segment(segment, epochs):
        yield Progress(done, size)
    segment.complete()
    segment.size = size
    for file in segment.sync_files():
        file.sync()


def _start_empty(store: SegmentStore, segments: Segments, request: LoadRequest) -> None:
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
    """Fill `producers`; return the offsets of the snapshots that remain."""
    snapshots: list[int] = []
    bases = set(segments.base_offsets)
    on_disk = snapshot_offsets(names)
    newest = max((offset for offset in on_disk if offset <= end), default=-1)
    for snapshot in on_disk:
        if snapshot <= end and (snapshot in bases or snapshot == newest):
            snapshots.append(snapshot)
        else:
            store.unlink(file_name(snapshot, PRODUCER_SNAPSHOT))
    if request.was_clean and not snapshots and index_from is None:
        # Each clean stop writes a snapshot: without one there were no producers, or it was lost.
        if end <= log_start or not has_lost_producers(segments, request.now_ms, request.producer_expiration_ms):
            return []
        yield Progress(0, 0, "the producer snapshot is missing: rebuilding the producer state from the batches")
    if end > log_start or snapshots:
        steps = rebuild_steps(
            store, segments, producers, snapshots, log_start, end, request.now_ms, index_from=index_from
        )
        for _ in steps:
            yield _CHECKED
    return snapshots
