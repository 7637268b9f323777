"""What was planned is read to its end, whatever the broker does with the files meanwhile."""

import os
import resource
from pathlib import Path

import pytest

from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading import kept_files
from kafkad_lakehouse.export.reading.kept_files import can_be_read, keep_open
from kafkad_lakehouse.export.reading.segments import SegmentReader
from kafkad_lakehouse.export.reading.shared_client import SharedClient
from kafkad_lakehouse.export.reading.source import Source, read_range
from tests.lakehouse.export.reading.test_segments import offsets_in, segment

RANGE = OffsetRange(0, 7, 33)


def directory(folder: Path) -> Path:
    for first in (0, 20, 40):
        segment(folder, range(first, first + 20))
    return folder


def test_files_that_lose_their_names_are_read(tmp_path: Path) -> None:
    log = directory(tmp_path / "t-0")
    with keep_open({0: str(log)}, [RANGE]) as kept:
        for path in log.iterdir():
            path.unlink()
        source = Source(topic="t", directories={0: str(log)}, kept=kept)
        batches = read_range(source, RANGE, SharedClient())
        assert [each for batch in batches for each in batch.column("offset").to_pylist()] == [*range(7, 33)]


def test_a_segment_that_is_replaced_stays_what_it_was(tmp_path: Path) -> None:
    log = directory(tmp_path / "t-0")
    with keep_open({0: str(log)}, [RANGE]) as kept:
        (log / f"{20:020d}.log").unlink()
        segment(tmp_path / "new", [3, 30], base=0).rename(log / f"{0:020d}.log")
        assert offsets_in(SegmentReader(kept[0]), 7, 33) == list(range(7, 33))


def test_only_what_is_wanted_is_open_and_only_until_the_end(tmp_path: Path) -> None:
    log = directory(tmp_path / "t-0")
    before = len(os.listdir("/proc/self/fd"))
    with keep_open({0: str(log)}, [RANGE]) as kept:
        assert sorted(os.listdir(kept[0])) == [f"{base:020d}.{kind}" for base in (0, 20) for kind in ("index", "log")]
        assert len(os.listdir("/proc/self/fd")) == before + 4
        assert can_be_read(kept[0])
    assert len(os.listdir("/proc/self/fd")) == before
    assert not can_be_read(kept[0])
    assert not Path(kept[0]).parent.exists()


def test_a_folder_whose_process_has_ended_is_not_read(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").symlink_to("/proc/1234567890/fd/3")
    assert not can_be_read(str(tmp_path))


def test_a_partition_with_more_files_than_may_be_open_is_read_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, small = directory(tmp_path / "t-0"), tmp_path / "t-1"
    segment(small, range(5))
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(kept_files, "_RESERVED_DESCRIPTORS", limit - len(os.listdir("/proc/self/fd")) - 5)
    with keep_open({0: str(log), 1: str(small)}, [RANGE, OffsetRange(1, 0, 5)]) as kept:
        assert set(kept) == {1}
