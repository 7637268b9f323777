"""How are lost files detected and rebuilt that derive from a log, after a clean stop or below the recovery point?

Recovery rebuilds all derived files from the recovery point on; this module is for files of older records.
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
