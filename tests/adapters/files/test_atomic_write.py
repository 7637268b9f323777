"""Old content or new content, whatever happens in between."""

import os
from pathlib import Path

import pytest

from kafkad.adapters.files.atomic_write import write_atomically
from kafkad.core.ports import StorageFailed
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


def test_name_without_a_directory_is_written_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomically("checkpoint", b"new")
    assert (tmp_path / "checkpoint").read_bytes() == b"new"
