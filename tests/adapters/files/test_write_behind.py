"""What a thread writes is what was asked for, in that order, and a failure is told once and ends the rest."""

import os
from pathlib import Path

import pytest

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.write_behind import WriteBehindFiles
from kafkad.core.ports import StorageFailed

LARGE = 1 << 20
LONG_AGO_MS = 86_400_000


def _wait(files: WriteBehindFiles) -> None:
    while (awaited := files.awaited()) is not None:
        awaited.exception(60)


def test_changes_are_made_in_their_order(tmp_path: Path) -> None:
    files = WriteBehindFiles(tmp_path, FileCache(2))
    pieces = [os.urandom(LARGE + number) for number in range(8)]
    for name in ("a", "b"):
        file, at = files.open(name, create=True), 0
        for piece in pieces:
            file.write_at((piece[:10], piece[10:]), at)
            at += len(piece)
        files.set_modified_ms(name, LONG_AGO_MS)
    files.open("gone", create=True).write_at((pieces[0],), 0)
    files.unlink("gone")
    assert files.awaited() is not None
    _wait(files)
    files.close_files()
    for name in ("a", "b"):
        assert (tmp_path / name).read_bytes() == b"".join(pieces)
        assert files.modified_ms(name) == LONG_AGO_MS
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    files.close()


def test_after_a_failure_only_removals_are_made(tmp_path: Path) -> None:
    files = WriteBehindFiles(tmp_path, FileCache(2, read_only=True))
    (tmp_path / "old").touch()
    files.open("a", create=True).write_at((bytes(LARGE),), 0)
    with pytest.raises(StorageFailed, match="can't write"):
        _wait(files)
    with pytest.raises(StorageFailed, match="can't write"):
        files.open("b", create=True)
    files.unlink("old")
    assert os.listdir(tmp_path) == ["a"]
    files.close()


def test_what_is_unfinished_is_so_no_longer_once_it_is_closed(tmp_path: Path) -> None:
    cache = FileCache(2)
    files = WriteBehindFiles(tmp_path, cache)
    file = files.open("a", create=True)
    for number in range(20):
        file.write_at((bytes([number]) * LARGE,), number * LARGE)
    files.close()
    assert (tmp_path / "a").read_bytes() == b"".join(bytes([number]) * LARGE for number in range(20))
    assert cache.open_count == 0
