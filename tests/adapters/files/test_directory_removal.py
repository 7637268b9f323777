"""Directories of deleted topics: removed a file at a time, and what can't be is said."""

import logging
from pathlib import Path

import pytest

from kafkad.adapters.files.directory_removal import DirectoryRemovals

NO_TIME, LONG_ENOUGH = 0.0, float("inf")


def partition(folder: Path, name: str, files: int) -> Path:
    home = folder / name
    (home / "within").mkdir(parents=True)
    for number in range(files):
        (home / f"{number}.log").write_bytes(b"x")
    (home / "within" / "file").write_bytes(b"x")
    return home


def test_each_turn_removes_a_little(tmp_path: Path) -> None:
    home = partition(tmp_path, "t-0", 100)
    removals = DirectoryRemovals()
    done: list[str] = []
    removals.add(home, lambda: done.append("t-0"))
    for turn in range(50):
        removals.work(NO_TIME)
        assert len(list(home.iterdir())) >= 101 - turn - 1
    assert done == []
    removals.work(LONG_ENOUGH)
    assert not home.exists()
    assert (done, len(removals)) == (["t-0"], 0)


def test_one_comes_after_the_other(tmp_path: Path) -> None:
    removals = DirectoryRemovals()
    done: list[int] = []
    for number in range(3):
        removals.add(partition(tmp_path, f"t-{number}", 5), lambda number=number: done.append(number))  # type: ignore[misc]
    removals.work(LONG_ENOUGH)
    assert done == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []


def test_what_is_gone_already_is_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    removals = DirectoryRemovals()
    removals.add(tmp_path / "t-0")
    removals.work(LONG_ENOUGH)
    assert len(removals) == 0
    assert caplog.records == []


def test_what_can_not_be_removed_is_said_once_and_the_next_one_follows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = partition(tmp_path, "elsewhere", 1)
    file = tmp_path / "t-1"
    file.write_bytes(b"no directory")
    removals = DirectoryRemovals()
    removals.add(file)
    removals.add(target)
    with caplog.at_level(logging.ERROR):
        removals.work(LONG_ENOUGH)
    (record,) = caplog.records
    assert f"{file} is left of a deleted topic and can't be removed" in record.getMessage()
    assert not target.exists()
