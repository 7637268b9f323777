import pytest

from kafkad.core.log.producers.producer_state import EndMarker
from kafkad.core.log.records.end_markers import build_end_marker, read_end_marker
from kafkad.core.log.records.record import MalformedRecords, NewRecord, build_batch
from tests.core.log import golden

COMMIT = EndMarker(commit=True, coordinator_epoch=6, timestamp=5000)
ABORT = EndMarker(commit=False, coordinator_epoch=6, timestamp=5000)


@pytest.mark.parametrize(("marker", "java"), [(COMMIT, golden.COMMIT), (ABORT, golden.ABORT)])
def test_markers_are_byte_for_byte_those_of_java(marker: EndMarker, java: bytes) -> None:
    built = build_end_marker(marker, producer_id=77, producer_epoch=4, base_offset=12, leader_epoch=3)
    assert built == java
    assert read_end_marker(memoryview(java)) == marker


def test_another_control_record_is_no_marker() -> None:
    leader_change = build_batch([NewRecord(1, b"\0\0\0\x02", b"")], is_control=True)
    assert read_end_marker(memoryview(leader_change)) is None


def test_a_control_batch_that_compaction_emptied_has_no_marker() -> None:
    emptied = build_batch([], is_control=True, last_offset_delta=0)
    assert read_end_marker(memoryview(emptied)) is None


@pytest.mark.parametrize(("key", "value"), [(b"\0", b""), (None, b""), (b"\0\0\0\x01", b"\0"), (b"\0" * 4, None)])
def test_a_broken_marker_is_malformed(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedRecords):
        read_end_marker(memoryview(build_batch([NewRecord(1, key, value)], is_control=True)))
