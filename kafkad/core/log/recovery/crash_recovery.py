"""Which batches of a log that was not closed cleanly are intact?

Every batch from the recovery point on is read and checked: shape, checksum, offsets that grow. The first bad one
ends the log. Later segments go first, then the bad tail is truncated: a crash in between leaves a log which
recovers to the same end. The work is done in steps of about a megabyte: the caller decides when to go on.
"""

from collections.abc import Generator
from typing import NamedTuple

from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, has_valid_crc, read_header_within
from kafkad.core.log.records.old_formats import refuse_old_message
from kafkad.core.log.segments.index import LARGEST_RELATIVE_OFFSET
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.log.segments.log_segments import Segments
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import SegmentStore

_CHUNK = 1 << 20


class Progress(NamedTuple):
    """The progress of one partition's recovery."""

    bytes_done: int
    bytes_total: int
    finding: str = ""
    """What was truncated and why, for the broker's log; usually empty."""
    segments_left: int = 0
    """Still to be checked, the present one included."""


def recover_segments(
    store: SegmentStore, segments: Segments, epochs: LeaderEpochCache, recovery_point: int
) -> Generator[Progress, None, None]:
    """Check everything from the recovery point on."""
    unflushed = segments.from_offset(recovery_point)
    total = sum(segment.size for segment in unflushed)
    done = 0
    next_offset = unflushed[0].base_offset if unflushed else 0
    for number, segment in enumerate(unflushed):
        left = len(unflushed) - number
        size = segment.size
        if segment.base_offset < next_offset:
            yield Progress(done, total, f"segment {segment.base_offset} overlaps the one before it")
            _drop(store, segments, segment.base_offset - 1)
            return
        check = check_segment(segment, epochs)
        while True:
            try:
                yield Progress(done + next(check), total, segments_left=left)
            except StopIteration as finished:
                next_offset = finished.value
                break
        if segment.size < size:
            cut = f"segment {segment.base_offset} is cut from {size} to {segment.size} bytes, at {next_offset}"
            yield Progress(done, total, cut)
            _drop(store, segments, segment.base_offset)
            _truncate_tail(segment)
            return
        segment.complete()
        done += size


def check_segment(segment: Segment, epochs: LeaderEpochCache) -> Generator[int, None, int]:
    """Read a segment and rebuild its indexes, yielding bytes done; returns the offset after its last intact batch.

    Afterwards `segment.size` covers the intact batches; the file itself is not truncated yet. Raises
    `OldMessageFormat` where the end is not a damaged batch but a message of an old format.
    """
    size = segment.size
    segment.rebuild_started()
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
            _count(segment, epochs, header)
            next_offset = header.next_offset
            position += header.size
    except CorruptBatch:
        refuse_old_message(segment.log, file_name(segment.base_offset, LOG), position, size)
    return next_offset


def _read(segment: Segment, position: int, size: int, wanted: int) -> memoryview:
    return memoryview(segment.log.read_at(min(wanted, size - position), position))


def _check_batch(window: memoryview, at: int, header: BatchHeader, base_offset: int, next_offset: int) -> None:
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        raise CorruptBatch(at, f"expected offset {next_offset} or more, found {header.base_offset}")
    if header.last_offset - base_offset > LARGEST_RELATIVE_OFFSET:
        raise CorruptBatch(at, f"offset {header.last_offset} does not fit a segment from {base_offset}")
    if at + header.size > len(window) or not has_valid_crc(window, at, header):
        raise CorruptBatch(at, f"the batch does not match its checksum {header.crc}")


def _count(segment: Segment, epochs: LeaderEpochCache, header: BatchHeader) -> None:
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
