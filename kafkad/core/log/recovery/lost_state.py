"""Files that are derived from a log are gone, although it was closed cleanly or synced: how is that noticed and mended?

Recovery makes everything anew from the recovery point on; this is about files that are gone from below it.
"""

from collections.abc import Generator

from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.core.log.records.batch import BatchHeader, CorruptBatch
from kafkad.core.log.records.batch_scan import find_batch, walk_batches
from kafkad.core.log.recovery.crash_recovery import Progress
from kafkad.core.log.segments.layout import LEADER_EPOCHS
from kafkad.core.log.segments.log_segments import Segments

_BATCHES_A_STEP = 500


def find_epochs(segments: Segments, epochs: LeaderEpochCache) -> Generator[Progress, None, None]:
    """Fill `epochs` from the headers of all batches, after the loss of `leader-epoch-checkpoint`."""
    yield Progress(0, 0, f"{LEADER_EPOCHS} is gone or damaged: it is made anew from the batches")
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
            # Below the recovery point nothing is truncated: its readers will find it too.
            yield Progress(0, 0, f"segment {segment.base_offset} is damaged {error}: epochs behind that are not found")


def has_lost_producers(segments: Segments, now_ms: int, expiration_ms: int) -> bool:
    """Whether a log that was closed cleanly, and has no producer snapshot, should have one.

    The last batch is of a producer that has not expired, or in a transaction that nothing has ended.
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
