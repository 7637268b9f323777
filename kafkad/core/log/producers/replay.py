"""How is the producer state rebuilt?

From the newest valid snapshot and the batches after it. Only headers are read, except for transaction markers, which
are read whole. A transaction index that may be wrong is rebuilt as well: the producer state has the transaction that a
marker ends.
"""

from collections.abc import Iterator, Sequence

from kafkad.core.log.producers.producer_state import ProducerStates
from kafkad.core.log.records.batch import BatchHeader
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.records.end_markers import read_end_marker
from kafkad.core.log.records.record import MalformedRecords
from kafkad.core.log.recovery.state_files import correct_producers, read_producers
from kafkad.core.log.segments.log_segments import Segments
from kafkad.core.log.segments.segment import Segment
from kafkad.core.log.segments.transaction_index import AbortedTransaction
from kafkad.core.ports import SegmentStore

BATCHES_A_STEP = 500


def rebuild_steps(
    store: SegmentStore,
    segments: Segments,
    producers: ProducerStates,
    snapshots: Sequence[int],
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    *,
    index_from: int | None = None,
) -> Iterator[None]:
    """Restore `producers` to the state at `log_end_offset`.

    `snapshots` are the offsets of the snapshot files, ascending. Transaction indexes are rebuilt from the segment with
    base offset `index_from` on.
    """
    producers.truncate_full()
    start = log_start_offset
    newest = log_end_offset if index_from is None else min(index_from, log_end_offset)
    for snapshot in reversed(snapshots):
        if snapshot <= newest:
            entries = read_producers(store, snapshot)
            if entries is not None:
                producers.load(entries, now_ms)
                start = snapshot
                break
    if start >= log_end_offset and index_from is None:
        return
    for segment in segments.from_offset(start if index_from is None else min(start, index_from)):
        is_indexed = index_from is not None and segment.base_offset >= index_from
        if is_indexed and segment.base_offset > start and segment.base_offset in snapshots:
            # The snapshot may contain batches that were lost since: a lost tail does not remove the snapshot of the
            # next segment.
            correct_producers(store, producers, segment.base_offset)
        aborted: list[AbortedTransaction] | None = [] if is_indexed else None
        yield from _replay_segment(segment, producers, start, aborted)
        yield
        if aborted is not None:
            segment.aborted.rebuild(aborted)


def _replay_segment(
    segment: Segment, producers: ProducerStates, start: int, aborted: list[AbortedTransaction] | None
) -> Iterator[None]:
    position = segment.position_of(start) if start > segment.base_offset else 0
    for number, (at, header) in enumerate(walk_batches(segment.log.read_at, position, segment.size), 1):
        if number % BATCHES_A_STEP == 0:
            yield
        if header.producer_id >= 0 and header.last_offset >= start:
            _replay_batch(segment, producers, at, header, aborted)


def _replay_batch(
    segment: Segment,
    producers: ProducerStates,
    position: int,
    header: BatchHeader,
    aborted: list[AbortedTransaction] | None,
) -> None:
    """Apply the batch at `position` of `segment`, and index the transaction that it aborts."""
    if not header.is_control:
        producers.replay(header)
        return
    try:
        marker = read_end_marker(memoryview(segment.log.read_at(header.size, position)))
    except MalformedRecords:
        # The checksum is valid, so it was written like this: it is no transaction marker.
        marker = None
    if aborted is not None and marker is not None:
        entry = producers.aborted_by(header.producer_id, marker, header.base_offset)
        if entry is not None:
            aborted.append(entry)
    producers.replay(header, marker, segment.base_offset)
