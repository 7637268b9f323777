"""Old content or new content, whatever happens in between."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkad.adapters.files.atomic_write import write_atomically, write_in_log_directory, write_whole
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from tests.tools.mortal_process import Died, MortalProcess


def test_file_has_its_new_content_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_atomically(str(path), b"old")
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_file_keeps_its_old_content_when_the_new_one_can_not_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(5, os.strerror(5))

    path = tmp_path / "checkpoint"
    write_atomically(str(path), b"old")
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StorageFailed, match=str(path)):
        write_atomically(str(path), b"new")
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(("steps", "expected"), [(0, b"old"), (1, b"old"), (2, b"new")])
def test_a_write_that_is_stopped_before_any_step_leaves_the_old_content_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, expected: bytes
) -> None:
    """The steps: the new content is synced, gets the name, and the directory is synced."""
    path = tmp_path / "checkpoint"
    write_atomically(str(path), b"old")
    with monkeypatch.context() as patch:
        MortalProcess(patch, steps, ("fsync", "replace"))
        with pytest.raises(Died):
            write_atomically(str(path), b"new")
    assert path.read_bytes() == expected
    write_atomically(str(path), b"newer")
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("steps", "expected"), [(0, b"old"), (1, b"old"), (2, b"old"), (3, b"new")])
def test_a_write_without_syncs_is_stopped_before_any_step_in_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, expected: bytes
) -> None:
    """The steps: the new content gets a file, is written to it, and gets the name."""
    path = tmp_path / "checkpoint"
    write_whole(str(path), b"old")
    with monkeypatch.context() as patch:
        mortal = MortalProcess(patch, steps, ("open", "write", "replace", "fsync"))
        if expected == b"old":
            with pytest.raises(Died):
                write_whole(str(path), b"new")
        else:
            write_whole(str(path), b"new")
        assert mortal.is_dead == (expected == b"old"), "nothing is synced"
    assert path.read_bytes() == expected
    write_whole(str(path), b"newer")
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [write_atomically, write_whole])
def test_what_the_disk_takes_in_pieces_is_written_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[str, bytes], None]
) -> None:
    """As it may when there is just room for a part."""
    path, whole, room = tmp_path / "checkpoint", os.write, 6

    def in_pieces(descriptor: int, content: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room -= 1
        return whole(descriptor, content[:1])

    monkeypatch.setattr(os, "write", in_pieces)
    write(str(path), b"new")
    assert path.read_bytes() == b"new"
    with pytest.raises(NoSpaceLeft, match=str(path)):
        write(str(path), b"newer")
    assert path.read_bytes() == b"new"


def test_name_without_a_directory_is_written_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomically("checkpoint", b"new")
    assert (tmp_path / "checkpoint").read_bytes() == b"new"


def test_a_log_directory_that_was_removed_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "removed" / "checkpoint"
    with pytest.raises(StorageFailed, match=str(path)):
        write_in_log_directory(str(path), b"new")


def test_a_partition_that_was_removed_is_no_failed_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(str(tmp_path / "t-0" / "00000000000000000000.snapshot"), b"new")
