"""Which records are removed from a log, in an order that is safe in a crash?

Retention and DeleteRecords remove from the front, truncation from the end. Readers may have removed files open, so an
effect unlinks the files later. Before a truncation the owner lowers the published end and waits for its readers; after
a removal from the front it publishes the new generation, as open files stay readable.
"""

from collections import deque
from collections.abc import Iterator

from kafkad.core.cleanup import SegmentSummary
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.producers.replay import rebuild_steps
from kafkad.core.log.recovery.state_files import snapshot_offsets, write_epochs
from kafkad.core.log.segments.layout import LOG, PRODUCER_SNAPSHOT, file_name
from kafkad.core.log.segments.log_segments import Segments
from kafkad.core.log.segments.replacement import abort_swap
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import NoSpaceLeft
from kafkad.core.types import NO_TIMESTAMP, LogPosition

SEGMENTS_PER_STEP = 64
"""Segments removed in one step of a few milliseconds."""


def cleanable_end_of(log: PartitionLog) -> int:
    """The end of the records that compaction may read: stable and on disk, as well as the markers that made them
    stable. A record must stay if a power failure may lose the later record with its key.
    """
    end = min(log.last_stable_offset, log.recovery_point)
    unsynced = log.producers.transactions.first_unsynced(log.recovery_point)
    return end if unsynced is None else min(end, unsynced)


def request_sealed_sync(log: PartitionLog, now_ms: int) -> bool:
    """Request the sync of the unsynced sealed segments of a compacted log, and of the markers of their transactions:
    after a crash nothing else requests it. Returns whether there are any.
    """
    end = max(log.segments.active.base_offset, log.producers.transactions.end_of_unsynced)
    if not log.config.is_compacted or log.recovery_point >= end:
        return False
    log.request_flush(now_ms, up_to=end)
    return True


def segment_summaries(log: PartitionLog) -> Iterator[SegmentSummary]:
    """The segments for cleanup policies, one at a time; segments that are removed meanwhile are skipped.

    The modification time of the file is read only if no record has a timestamp.
    """
    for segment in tuple(log.segments):
        if log.segments.floor(segment.base_offset) is not segment:
            continue
        largest = segment.load_max_timestamp()
        modified = log.store.modified_ms(file_name(segment.base_offset, LOG)) if largest < 0 else largest
        yield SegmentSummary(
            base_offset=segment.base_offset,
            size_bytes=segment.size,
            largest_timestamp_ms=largest,
            last_modified_ms=modified,
            is_active=segment is log.segments.active,
            first_timestamp_ms=segment.load_first_timestamp() if log.config.is_compacted else NO_TIMESTAMP,
        )


def delete_records_before(log: PartitionLog, offset: int) -> list[UnlinkFiles]:
    """DeleteRecords: set the log start offset to `offset`. Segments below it are removed: some now, the others by
    `remove_expired_segments`. Raises `KafkaError`.
    """
    if not 0 <= offset <= log.high_watermark.offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"records can be deleted up to the high watermark {log.high_watermark.offset}, not to {offset}",
        )
    if offset <= log.log_start_offset:
        return []
    log.log_start_offset = offset
    log.epochs.truncate_from_start(offset)
    log.generation += 1
    return remove_expired_segments(log)


def has_expired_segments(log: PartitionLog) -> bool:
    """Whether a segment is completely below the log start offset."""
    return len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset


def remove_expired_segments(log: PartitionLog) -> list[UnlinkFiles]:
    """Remove some segments below the log start offset: each requires renames, and there may be ten thousand."""
    count = 0
    while count < SEGMENTS_PER_STEP and count + 1 < len(log.segments):
        if log.segments[count + 1].base_offset > log.log_start_offset:
            break
        count += 1
    return _remove_first(log, count)


def last_segment_below(log: PartitionLog, offset: int) -> int:
    """The base offset of the newest segment that ends at or below `offset`; -1 if there is none."""
    bases = log.segments.base_offsets
    ends = [*bases[1:], log.log_end_offset]
    return max((base for base, end in zip(bases, ends, strict=True) if end <= offset), default=-1)


def delete_segments(log: PartitionLog, up_to_base: int, now_ms: int) -> list[UnlinkFiles]:
    """Retention: remove the segments with base offsets up to and including `up_to_base`, as DeleteRecords does.

    To remove all of them, a new active segment is rolled first; an empty active one stays. Without disk space for the
    new segment the newest one stays for now.
    """
    count = sum(1 for base in log.segments.base_offsets if base <= up_to_base)
    if count == len(log.segments) and not _roll_for_removal(log, now_ms, is_only=count == 1):
        count -= 1
    if count == 0:
        return []
    log.log_start_offset = max(log.log_start_offset, log.segments[count].base_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    return remove_expired_segments(log)


def _roll_for_removal(log: PartitionLog, now_ms: int, *, is_only: bool) -> bool:
    if log.segments.active.size == 0:
        return False
    try:
        log.roll(log.log_end_offset, now_ms)
    except NoSpaceLeft:
        if is_only:
            raise
        return False
    return True


def _remove_first(log: PartitionLog, count: int) -> list[UnlinkFiles]:
    if count == 0:
        return []
    swap = log.segments.pending_swap
    if swap is not None and swap.base_offset < log.segments[count].base_offset:
        abort_swap(log)
    names = log.segments.remove_first(count)
    log.generation += 1
    first = log.segments[0]
    if log.high_watermark.segment_base < first.base_offset:
        log.high_watermark = log.position_of(max(log.high_watermark.offset, first.base_offset))
    return [_unlink(log, names)]


def truncate_to(log: PartitionLog, offset: int, now_ms: int) -> list[UnlinkFiles]:
    """Truncate the log to end at `offset`, or at the start of the batch with `offset`.

    The newest segments are removed first, and the directory is synced before the next append: a segment that
    reappeared after a crash would overlap newer ones.
    """
    assert offset >= 0, f"can't truncate to {offset}"
    if offset >= log.log_end_offset:
        _remove_empty_epoch(log)
        return []
    if offset < log.segments[0].base_offset:
        return truncate_fully_and_start_at(log, offset, now_ms)
    abort_swap(log)
    log.recovery_point = min(log.recovery_point, offset)
    log.truncations += 1
    names = log.segments.remove_after(offset)
    _remove_snapshots_after(log, offset)
    # Sync before the truncation: a gap in the log would look like a gap of compaction.
    log.store.sync_directory()
    active = log.segments.active
    active.truncate_to(offset, now_ms)
    log.log_end_offset = active.next_offset()
    log.recovery_point = min(log.recovery_point, log.log_end_offset)
    log.log_start_offset = min(log.log_start_offset, log.log_end_offset)
    _update_after_truncation(log, now_ms)
    if log.high_watermark.offset >= log.log_end_offset:
        log.high_watermark = log.log_end
    return [_unlink(log, names)] if names else []


def _remove_empty_epoch(log: PartitionLog) -> None:
    """Remove the epoch of a leader that appended nothing: it would diverge from every later leader."""
    if log.epochs.truncate_from_end(log.log_end_offset):
        write_epochs(log.store, log.epochs, is_first=False)
        log.generation += 1


def truncate_fully_and_start_at(log: PartitionLog, offset: int, now_ms: int) -> list[UnlinkFiles]:
    """Remove all segments; the empty log starts at `offset`."""
    abort_swap(log)
    log.recovery_point = min(log.recovery_point, offset)
    log.truncations += 1
    names = log.segments.remove_after(-1)
    _remove_snapshots_after(log, -1)
    segment = Segment.create(log.store, log.config, offset, now_ms=now_ms)
    stored_counts = log.segments.stored_aborted_counts
    log.segments = Segments(log.store, [segment])
    log.segments.stored_aborted_counts = stored_counts
    log.log_start_offset = log.log_end_offset = log.recovery_point = offset
    log.epochs.clear()
    _update_after_truncation(log, now_ms)
    log.high_watermark = LogPosition(offset, offset, 0)
    return [_unlink(log, names)]


def _update_after_truncation(log: PartitionLog, now_ms: int) -> None:
    """Update all state that depends on the log end."""
    had_epochs = log.epochs.latest_epoch is not None
    log.epochs.truncate_from_end(log.log_end_offset)
    if had_epochs:
        write_epochs(log.store, log.epochs, is_first=False)
    log.segments.active.log.sync()
    log.store.sync_directory()
    log.reset_after_truncation()
    transactions = log.producers.transactions
    unsafe = transactions.unsafe()
    snapshots = snapshot_offsets(log.store.sizes())
    start, end = log.log_start_offset, log.log_end_offset
    steps = rebuild_steps(log.store, log.segments, log.producers, snapshots, start, end, now_ms)
    # In one step: the truncated part of a log is short.
    deque(steps, maxlen=0)
    transactions.keep_unsafe(unsafe, log.log_end_offset)
    transactions.replicated(min(log.high_watermark.offset, log.log_end_offset))
    log.generation += 1


def _remove_snapshots_after(log: PartitionLog, offset: int) -> None:
    for snapshot in snapshot_offsets(log.store.sizes()):
        if snapshot > offset:
            log.store.unlink(file_name(snapshot, PRODUCER_SNAPSHOT))


def _unlink(log: PartitionLog, names: tuple[str, ...]) -> UnlinkFiles:
    return UnlinkFiles(names=names, delay_ms=log.config.file_delete_delay_ms, generation=log.generation)


def remove_files(log: PartitionLog, effect: UnlinkFiles) -> None:
    """Unlink removed files; idempotent, as missing files are no error."""
    for name in effect.names:
        log.store.unlink(name)
