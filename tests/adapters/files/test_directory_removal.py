"""Directories of deleted topics: removed one after the other by a thread, and what can't be is said."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.files.directory_removal import DirectoryRemovals


@pytest.fixture
def removals() -> Iterator[DirectoryRemovals]:
    removals = DirectoryRemovals()
    yield removals
    removals.close()


def partition(folder: Path, name: str, files: int) -> Path:
    home = folder / name
    (home / "within").mkdir(parents=True)
    for number in range(files):
        (home / f"{number}.log").write_bytes(b"x")
    (home / "within" / "file").write_bytes(b"x")
    return home


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline


def test_one_comes_after_the_other(
    removals: DirectoryRemovals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    rmdir = os.rmdir

    def noted(path: str) -> None:
        rmdir(path)
        removed.append(os.path.relpath(path, tmp_path))

    monkeypatch.setattr(os, "rmdir", noted)
    for number in range(3):
        removals.add(partition(tmp_path, f"t-{number}", 5))
    wait_until(lambda: len(removed) == 6)
    assert removed == [name for number in range(3) for name in (f"t-{number}/within", f"t-{number}")]
    assert list(tmp_path.iterdir()) == []


def test_a_symbolic_link_goes_with_the_content_of_where_it_leads_to(
    removals: DirectoryRemovals, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = partition(tmp_path, "elsewhere", 3)
    (tmp_path / "t-0").symlink_to(elsewhere)
    removals.add(tmp_path / "t-0")
    wait_until(lambda: not os.path.lexists(tmp_path / "t-0"))
    assert list(tmp_path.iterdir()) == [elsewhere] and not list(elsewhere.iterdir())
    assert not caplog.records


def test_nobody_waits_for_the_file_system(
    removals: DirectoryRemovals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = partition(tmp_path, "t-0", 100)
    unlink, may_go = os.unlink, Event()

    def slow(path: str) -> None:
        assert may_go.wait(WITHIN_S), "the caller waits"
        unlink(path)

    monkeypatch.setattr(os, "unlink", slow)
    removals.add(home)
    assert len(list(home.iterdir())) == 101
    may_go.set()
    wait_until(lambda: not home.exists())


def test_stop_waits_for_the_file_under_way_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removals = DirectoryRemovals()
    first, second = partition(tmp_path, "t-0", 100), partition(tmp_path, "t-1", 1)
    unlink, has_begun, may_go = os.unlink, Event(), Event()

    def slow(path: str) -> None:
        has_begun.set()
        may_go.wait(WITHIN_S)
        unlink(path)

    monkeypatch.setattr(os, "unlink", slow)
    removals.add(first)
    removals.add(second)
    assert has_begun.wait(WITHIN_S)
    removals._is_closed = True
    may_go.set()
    removals.close()
    assert len(list(first.iterdir())) == 100
    assert len(list(second.iterdir())) == 2


def test_what_is_gone_already_is_no_news(
    removals: DirectoryRemovals, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    later = partition(tmp_path, "t-1", 1)
    removals.add(tmp_path / "t-0")
    removals.add(later)
    wait_until(lambda: not later.exists())
    assert caplog.records == []


def test_what_can_not_be_removed_is_said_once_and_the_next_one_follows(
    removals: DirectoryRemovals, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = partition(tmp_path, "elsewhere", 1)
    file = tmp_path / "t-1"
    file.write_bytes(b"no directory")
    with caplog.at_level(logging.ERROR):
        removals.add(file)
        removals.add(target)
        wait_until(lambda: not target.exists())
    (record,) = caplog.records
    assert f"can't remove directory {file} of a deleted topic: " in record.getMessage()
