"""What an interrupted copy of a log has, told by size and modification time."""

import os
from pathlib import Path

import pytest

from kafkad.adapters.files.log_copy import copy_bytes, copy_small_files, find_copied
from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, PARTITION_METADATA, file_name

BASES = (0, 10, 20)
SIZE = 1000


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A log of three segments, and a copy of which all are whole."""
    source, target = tmp_path / "t-0", tmp_path / "t-0.id-future"
    for folder in (source, target):
        folder.mkdir()
        (folder / PARTITION_METADATA).write_text("version: 0")
    for base in BASES:
        name = file_name(base, LOG)
        (source / name).write_bytes(bytes([base]) * SIZE)
        (source / file_name(base, OFFSET_INDEX)).write_bytes(b"index")
        os.utime(source / name, ns=(1, 1_700_000_000_123_456_789 + base))
        copy_bytes(f"{source / name}", f"{target / name}", 0, SIZE, sync=False)
        copy_small_files(str(source), str(target), [file_name(base, OFFSET_INDEX)], name)
    return source, target


def find(folders: tuple[Path, Path], among: tuple[int, ...] = BASES) -> list[int]:
    """The segments whose copy stays."""
    logs = {file_name(base, LOG): base for base in among}
    found = find_copied(str(folders[0]), str(folders[1]), logs, PARTITION_METADATA)
    assert set(found.values()) <= {SIZE}
    assert set(os.listdir(folders[1])) == {PARTITION_METADATA, *found}
    return [logs[name] for name in found]


def test_whole_copies_stay_and_derived_files_are_removed(folders: tuple[Path, Path]) -> None:
    assert find(folders) == [0, 10, 20]


def test_a_file_that_was_being_copied_is_removed(folders: tuple[Path, Path]) -> None:
    source, target = folders
    name = file_name(20, LOG)
    (target / name).unlink()
    # All bytes are there, and perhaps not on disk.
    copy_bytes(str(source / name), str(target / name), 0, SIZE, sync=False)
    assert find(folders) == [0, 10]


def test_a_segment_that_has_changed_since_is_removed(folders: tuple[Path, Path]) -> None:
    os.truncate(folders[0] / file_name(10, LOG), SIZE - 1)
    os.truncate(folders[0] / file_name(20, LOG), SIZE)
    assert find(folders) == [0]


def test_a_segment_that_is_not_in_the_log_any_more_is_removed(folders: tuple[Path, Path]) -> None:
    (folders[0] / file_name(0, LOG)).unlink()
    assert find(folders) == [10, 20]


def test_the_active_segment_is_removed(folders: tuple[Path, Path]) -> None:
    assert find(folders, BASES[:2]) == [0, 10]
