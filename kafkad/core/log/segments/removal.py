"""What is removed from a log, and in which order, so that a crash in between loses nothing else?

From the front by retention and DeleteRecords, from the back by truncation. Readers may still have removed files
open, so an effect unlinks them later. Before anything here the owner lowers what it published and waits for its
readers (truncation), or publishes the new generation afterwards (the front: open files stay readable).
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

AT_ONCE = 64
"""Segments removed in one step, which takes a few milliseconds."""


def cleanable_end_of(log: PartitionLog) -> int:
    """What lies before may be compacted: it is stable, and on disk, and so are the markers that made it stable. A
    record of which the later one with its key may be lost with the power has to stay.
    """
    end = min(log.last_stable_offset, log.recovery_point)
    unsynced = log.producers.transactions.first_unsynced(log.recovery_point)
    return end if unsynced is None else min(end, unsynced)


def request_sync_of_sealed(log: PartitionLog, now_ms: int) -> bool:
    """Sealed segments of a compacted log have to be on disk, and the markers of what began in them; after a crash,
    nobody else may ask for that. True if some are not.
    """
    end = max(log.segments.active.base_offset, log.producers.transactions.end_of_unsynced)
    if not log.config.is_compacted or log.recovery_point >= end:
        return False
    log.request_flush(now_ms, up_to=end)
    return True


def each_segment(log: PartitionLog) -> Iterator[SegmentSummary]:
    """The segments as cleanup policies see them, one at a time; those that are removed meanwhile are left out.

    The modification time of the file is read only where no record has a timestamp.
    """
    for segment in tuple(log.segments):
        if log.segments.holding(segment.base_offset) is not segment:
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
    """DeleteRecords: the log starts at `offset` now. Segments wholly below it are removed: some of them now, the
    others by `remove_passed`. Raises `KafkaError`.
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
    return remove_passed(log)


def has_passed(log: PartitionLog) -> bool:
    """Whether there are segments that lie wholly below the start of the log."""
    return len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset


def remove_passed(log: PartitionLog) -> list[UnlinkFiles]:
    """Remove some of them: each needs its files renamed, and there may be ten thousand."""
    count = 0
    while count < AT_ONCE and count + 1 < len(log.segments):
        if log.segments[count + 1].base_offset > log.log_start_offset:
            break
        count += 1
    return _remove_first(log, count)


def last_segment_below(log: PartitionLog, offset: int) -> int:
    """The newest segment that ends at or below `offset`; -1 when there is none."""
    bases = log.segments.base_offsets
    ends = [*bases[1:], log.log_end_offset]
    return max((base for base, end in zip(bases, ends, strict=True) if end <= offset), default=-1)


def delete_segments(log: PartitionLog, up_to_base: int, now_ms: int) -> list[UnlinkFiles]:
    """Retention: remove the segments with base offsets up to and including `up_to_base`, as DeleteRecords does.

    When that is all of them, a new active one is rolled first; an empty active one stays. One for whose successor the
    disk has no room stays for now.
    """
    count = sum(1 for base in log.segments.base_offsets if base <= up_to_base)
    if count == len(log.segments) and not _can_begin_anew(log, now_ms, is_only=count == 1):
        count -= 1
    if count == 0:
        return []
    log.log_start_offset = max(log.log_start_offset, log.segments[count].base_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    return remove_passed(log)


def _can_begin_anew(log: PartitionLog, now_ms: int, *, is_only: bool) -> bool:
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
    begun = log.segments.begun_swap
    if begun is not None and begun.base_offset < log.segments[count].base_offset:
        abort_swap(log)
    names = log.segments.remove_first(count)
    log.generation += 1
    first = log.segments[0]
    if log.high_watermark.segment_base < first.base_offset:
        log.high_watermark = log.position_of(max(log.high_watermark.offset, first.base_offset))
    return [_unlink(log, names)]


def truncate_to(log: PartitionLog, offset: int, now_ms: int) -> list[UnlinkFiles]:
    """Truncate the log so that it ends at `offset`, or where the batch holding it begins.

    The newest segments are removed first, and the directory is synced before anything can be appended again: a
    segment that came back after a crash would overlap with newer ones.
    """
    assert offset >= 0, f"can't truncate to {offset}"
    if offset >= log.log_end_offset:
        _forget_epoch_without_records(log)
        return []
    if offset < log.segments[0].base_offset:
        return truncate_fully_and_start_at(log, offset, now_ms)
    abort_swap(log)
    log.recovery_point = min(log.recovery_point, offset)
    log.truncations += 1
    names = log.segments.remove_after(offset)
    _forget_snapshots_after(log, offset)
    # Sync before truncating: a gap in the middle of the log would look like one that compaction leaves.
    log.store.sync_directory()
    active = log.segments.active
    active.truncate_to(offset, now_ms)
    log.log_end_offset = active.next_offset()
    log.recovery_point = min(log.recovery_point, log.log_end_offset)
    log.log_start_offset = min(log.log_start_offset, log.log_end_offset)
    _settle(log, now_ms)
    if log.high_watermark.offset >= log.log_end_offset:
        log.high_watermark = log.log_end
    return [_unlink(log, names)] if names else []


def _forget_epoch_without_records(log: PartitionLog) -> None:
    """This replica led for a while and appended nothing: its epoch would part it from the next leader for ever."""
    if log.epochs.truncate_from_end(log.log_end_offset):
        write_epochs(log.store, log.epochs, is_first=False)
        log.generation += 1


def truncate_fully_and_start_at(log: PartitionLog, offset: int, now_ms: int) -> list[UnlinkFiles]:
    """Remove all segments; the empty log starts at `offset`."""
    abort_swap(log)
    log.recovery_point = min(log.recovery_point, offset)
    log.truncations += 1
    names = log.segments.remove_after(-1)
    _forget_snapshots_after(log, -1)
    segment = Segment.create(log.store, log.config, offset, now_ms=now_ms)
    noted = log.segments.aborted_on_file
    log.segments = Segments(log.store, [segment])
    log.segments.aborted_on_file = noted
    log.log_start_offset = log.log_end_offset = log.recovery_point = offset
    log.epochs.clear()
    _settle(log, now_ms)
    log.high_watermark = LogPosition(offset, offset, 0)
    return [_unlink(log, names)]


def _settle(log: PartitionLog, now_ms: int) -> None:
    """Update everything that depends on the log end."""
    had_epochs = log.epochs.latest_epoch is not None
    log.epochs.truncate_from_end(log.log_end_offset)
    if had_epochs:
        write_epochs(log.store, log.epochs, is_first=False)
    log.segments.active.log.sync()
    log.store.sync_directory()
    log.forget_tail()
    transactions = log.producers.transactions
    unsafe = transactions.unsafe()
    snapshots = snapshot_offsets(log.store.sizes())
    start, end = log.log_start_offset, log.log_end_offset
    steps = rebuild_steps(log.store, log.segments, log.producers, snapshots, start, end, now_ms)
    # In one go: the tail of a log that is truncated is short.
    deque(steps, maxlen=0)
    transactions.keep_unsafe(unsafe, log.log_end_offset)
    transactions.replicated(min(log.high_watermark.offset, log.log_end_offset))
    log.generation += 1


def _forget_snapshots_after(log: PartitionLog, offset: int) -> None:
    for snapshot in snapshot_offsets(log.store.sizes()):
        if snapshot > offset:
            log.store.unlink(file_name(snapshot, PRODUCER_SNAPSHOT))


def _unlink(log: PartitionLog, names: tuple[str, ...]) -> UnlinkFiles:
    return UnlinkFiles(names=names, delay_ms=log.config.file_delete_delay_ms, generation=log.generation)


def remove_files(log: PartitionLog, effect: UnlinkFiles) -> None:
    """Unlink removed files. Absent files are no error, so this may be repeated."""
    for name in effect.names:
        log.store.unlink(name)
