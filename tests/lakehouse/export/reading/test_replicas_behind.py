"""The directory of a replica that is behind: what it does not have is never taken for a gap."""

from pathlib import Path

import pytest

from kafkad_lakehouse.export.problems import DataLost
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.segments import SegmentReader
from kafkad_lakehouse.export.reading.shared_client import SharedClient
from kafkad_lakehouse.export.reading.source import Source, read_range
from tests.lakehouse.export.reading.test_segments import segment


@pytest.mark.parametrize("first", [0, 30])
def test_a_directory_that_ends_too_early_is_not_read(first: int, tmp_path: Path) -> None:
    segment(tmp_path, range(20))
    segment(tmp_path, range(20, 40))
    source = Source(topic="t", directories={0: str(tmp_path)})
    with pytest.raises(DataLost, match="ends before offset 41, and no broker is available"):
        list(read_range(source, OffsetRange(0, first, 41), SharedClient()))
    rows = sum(batch.num_rows for batch in read_range(source, OffsetRange(0, first, 40), SharedClient()))
    assert rows == 40 - first


@pytest.mark.parametrize(
    ("offsets", "base", "end", "reaches"),
    [
        (range(0), 40, 40, True),
        (range(0), 40, 41, False),
        # Compaction left a gap.
        ([20, 39], 20, 35, True),
        ([20, 39], 20, 40, True),
        ([20, 39], 20, 41, False),
    ],
)
def test_a_log_reaches_as_far_as_its_last_batch(
    offsets: range | list[int], base: int, end: int, reaches: bool, tmp_path: Path
) -> None:
    segment(tmp_path, range(20))
    segment(tmp_path, offsets, base)
    assert SegmentReader(str(tmp_path)).reaches(end) == reaches


def test_a_batch_that_is_not_whole_is_left_to_reading(tmp_path: Path) -> None:
    path = segment(tmp_path, range(20))
    path.write_bytes(path.read_bytes()[:-5])
    assert SegmentReader(str(tmp_path)).reaches(20)


def test_a_folder_without_segments_reaches_nothing(tmp_path: Path) -> None:
    assert not SegmentReader(str(tmp_path)).reaches(1)
