"""How is a control batch written to a segment?

The index gets the entry of an aborted transaction before the log gets the marker: a reader that sees the marker finds
the entry. If the disk has no space for the marker, the entry is removed again (decision 010).
"""

from kafkad.core.log.producers.producer_state import EndMarker, ProducerStates
from kafkad.core.log.records.batch import BatchHeader
from kafkad.core.log.records.end_markers import read_end_marker
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import NoSpaceLeft


def write_control(
    segment: Segment, producers: ProducerStates, batch: memoryview, header: BatchHeader, base_offset: int
) -> EndMarker | None:
    """Write `batch` to the end of `segment`; return its transaction marker, for the producer state."""
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
        segment.aborted.remove_last()
        raise
    return marker
