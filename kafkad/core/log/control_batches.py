"""How does a control batch come into a segment? After what readers must find once they can see it.

The entry of an aborted transaction is in the index before the marker is in the log, and is taken back when there is no
room for the marker (decision 010).
"""

from kafkad.core.log.producers.producer_state import EndMarker, ProducerStates
from kafkad.core.log.records.batch import BatchHeader
from kafkad.core.log.records.end_markers import read_end_marker
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import NoSpaceLeft


def write_control(
    segment: Segment, producers: ProducerStates, batch: memoryview, header: BatchHeader, base_offset: int
) -> EndMarker | None:
    """Write `batch` to the end of `segment`; returns the marker that it holds, for the producers to hear of."""
    marker = read_end_marker(batch)
    aborted = None
    if marker is not None and header.producer_id >= 0:
        aborted = producers.aborted_by(header.producer_id, marker, base_offset)
    if aborted is None:
        segment.log.write_at((batch,), segment.size)
        return marker
    segment.aborted.append(aborted)
    try:
        segment.log.write_at((batch,), segment.size)
    except NoSpaceLeft:
        segment.aborted.take_back()
        raise
    return marker
