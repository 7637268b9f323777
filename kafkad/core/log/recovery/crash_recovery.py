"""Which batches of a log are intact after an unclean stop, and how are lost derived files rebuilt?

Every batch from the recovery point on is read and checked: format, checksum, increasing offsets. The log ends at the
first corrupt batch. Later segments are removed first, then the segment is truncated: a crash in between leaves a log
that recovers to the same end. The work is done in steps of about a megabyte.

Recovery rebuilds all derived files from the recovery point on. Lost files about older records, or after a clean stop,
are detected and rebuilt by `find_epochs` and `has_lost_producers`.
"""

from collections.abc import Generator
from typing import NamedTuple

from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, has_valid_crc, read_header_within
from kafkad.core.log.records.batch_scan import find_batch, walk_batches
from kafkad.core.log.records.old_formats import reject_old_message
from kafkad.core.log.segments.index import LARGEST_RELATIVE_OFFSET
from kafkad.core.log.segments.layout import LEADER_EPOCHS, LOG, file_name
from kafkad.core.log.segments.log_segments import Segments
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import SegmentStore

_CHUNK = 1 << 20


class Progress(NamedTuple):
    """The progress of the recovery of one partition."""

    bytes_done: int
    bytes_total: int
    message: str = ""
    """An event such as a truncation, for the broker's log; usually empty."""
    remaining_segments: int = 0
    """Segments to check, including the current one."""


def recover_segments(
    store: SegmentStore, segments: Segments, epochs: LeaderEpochCache, recovery_point: int
) -> Generator[Progress, None, None]:
    """Check all records from the recovery point on."""
    unflushed = segments.from_offset(recovery_point)
    total = sum(segment.size for segment in unflushed)
    done = 0
    next_offset = unflushed[0].base_offset if unflushed else 0
    for number, segment in enumerate(unflushed):
        remaining = len(unflushed) - number
        size = segment.size
        if segment.base_offset < next_offset:
            yield Progress(done, total, f"segment {segment.base_offset} overlaps the previous segment: it is removed")
            _drop(store, segments, segment.base_offset - 1)
            return
        check = check_segment(segment, epochs)
        while True:
            try:
                yield Progress(done + next(check), total, remaining_segments=remaining)
            except StopIteration as finished:
                next_offset = finished.value
                break
        if segment.size < size:
            change = f"from {size} to {segment.size} bytes, at offset {next_offset}"
            yield Progress(done, total, f"segment {segment.base_offset} is truncated {change}")
            _drop(store, segments, segment.base_offset)
            _truncate_tail(segment)
            return
        segment.complete()
        done += size


def check_segment(segment: Segment, epochs: LeaderEpochCache) -> Generator[int, None, int]:
    """Read a segment and rebuild its indexes; yield the bytes done, return the offset after the last intact batch.

    `segment.size` is then the size of the intact batches; the file is not truncated yet. Raises `OldMessageFormat` if
    a message of an old format follows the intact batches.
    """
    size = segment.size
    segment.reset()
    next_offset = segment.base_offset
    window = memoryview(b"")
    start = position = 0
    try:
        while position < size:
            if position + HEADER_SIZE > start + len(window):
                window, start = _read(segment, position, size, _CHUNK), position
                yield position
            header = read_header_within(bytes(window[position - start :][:HEADER_SIZE]), position, size)
            if position + header.size > start + len(window):
                window, start = _read(segment, position, size, max(header.size, _CHUNK)), position
                yield position
            _check_batch(window, position - start, header, segment.base_offset, next_offset)
            _add_batch(segment, epochs, header)
            next_offset = header.next_offset
            position += header.size
    except CorruptBatch:
        reject_old_message(segment.log, file_name(segment.base_offset, LOG), position, size)
    return next_offset


def _read(segment: Segment, position: int, size: int, size_to_read: int) -> memoryview:
    return memoryview(segment.log.read_at(min(size_to_read, size - position), position))


def _check_batch(window: memoryview, at: int, header: BatchHeader, base_offset: int, next_offset: int) -> None:
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        raise CorruptBatch(at, f"expected offset {next_offset} or later, found {header.base_offset}")
    if header.last_offset - base_offset > LARGEST_RELATIVE_OFFSET:
        raise CorruptBatch(at, f"offset {header.last_offset} is too large for segment {base_offset}")
    if at + header.size > len(window) or not has_valid_crc(window, at, header):
        raise CorruptBatch(at, f"the batch does not match its checksum {header.crc}")


def _add_batch(segment: Segment, epochs: LeaderEpochCache, header: BatchHeader) -> None:
    segment.count_batch(header.last_offset, header.largest_timestamp, header.size)
    latest = epochs.latest_epoch
    if header.partition_leader_epoch > (-1 if latest is None else latest):
        epochs.assign(header.partition_leader_epoch, header.base_offset)


def _drop(store: SegmentStore, segments: Segments, offset: int) -> None:
    """Remove the segments after `offset`, and sync the directory before anything else is truncated."""
    for name in segments.remove_after(offset):
        store.unlink(name)
    store.sync_directory()


def _truncate_tail(segment: Segment) -> None:
    segment.log.truncate(segment.size)
    segment.log.sync()
    segment.complete()


_BATCHES_A_STEP = 500


def find_epochs(segments: Segments, epochs: LeaderEpochCache) -> Generator[Progress, None, None]:
    """Fill `epochs` from the headers of all batches, after the loss of `leader-epoch-checkpoint`."""
    yield Progress(0, 0, f"{LEADER_EPOCHS} is missing or damaged: rebuilding the leader epochs from the batches")
    epochs.clear()
    latest = -1
    for segment in segments:
        try:
            for number, (position, header) in enumerate(walk_batches(segment.log.read_at, 0, segment.size)):
                if number % _BATCHES_A_STEP == 0:
                    yield Progress(position, segment.size)
                if header.partition_leader_epoch > latest:
                    latest = header.partition_leader_epoch
                    epochs.assign(latest, header.base_offset)
        except CorruptBatch as error:
            # Below the recovery point nothing is truncated: readers detect the damage too.
            found = "its later leader epochs are not found"
            yield Progress(0, 0, f"segment {segment.base_offset} is damaged {error}: {found}")


def has_lost_producers(segments: Segments, now_ms: int, expiration_ms: int) -> bool:
    """Whether a cleanly closed log without a producer snapshot must have lost it.

    True if the last batch is from a producer that has not expired, or in an open transaction.
    """
    last = _last_batch(segments)
    if last is None or last.producer_id < 0:
        return False
    is_open = last.is_transactional and not last.is_control
    return is_open or now_ms - last.max_timestamp < expiration_ms


def _last_batch(segments: Segments) -> BatchHeader | None:
    for segment in reversed(list(segments)):
        if segment.size:
            start = segment.position_of(segment.next_offset() - 1)
            found = find_batch(segment.log, start, segment.size, segment.base_offset)
            return None if found is None else found[1]
    return None
