"""What is in the page cache after a log was read is what was in it before, on every file system."""

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad.adapters.files.cache_neutral_reads import CacheNeutralFiles, drop_from_memory
from kafkad.adapters.files.file_cache import FileCache

PAGES = 512
WINDOW = 100_000
LEFT_BEHIND = 2 + WINDOW // mmap.PAGESIZE
"""Pages. On a busy machine those of one read may be with another processor when they are to be dropped."""
_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def cache() -> Iterator[FileCache]:
    cache = FileCache(4, read_only=True)
    yield cache
    cache.close_all()


def _file(tmp_path: Path) -> bytes:
    """A file that is on disk, and not in memory if the file system can do without that."""
    content = os.urandom(PAGES * mmap.PAGESIZE - 500)
    (tmp_path / "log").write_bytes(content)
    with (tmp_path / "log").open("rb") as file:
        os.fsync(file.fileno())
    drop_from_memory(str(tmp_path / "log"))
    return content


def _pages_in_memory(path: Path) -> list[bool]:
    access = mmap.PROT_READ | mmap.PROT_WRITE
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, access) as view:
        found = ctypes.create_string_buffer(PAGES)
        start = ctypes.c_char.from_buffer(view)
        failed = _libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(view)), found)
        del start
        assert not failed, os.strerror(ctypes.get_errno())
    return [bool(page & 1) for page in found.raw]


def _read(store: CacheNeutralFiles) -> bytes:
    file = store.open("log")
    pieces = []
    position = 0
    while piece := file.read_at(WINDOW, position):
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces)


def test_what_was_not_in_memory_before_is_not_afterwards(tmp_path: Path, cache: FileCache) -> None:
    content = _file(tmp_path)
    before = _pages_in_memory(tmp_path / "log")
    store = CacheNeutralFiles(str(tmp_path), cache)
    assert _read(store) == content
    after = _pages_in_memory(tmp_path / "log")
    assert sum(after) - sum(before) <= LEFT_BEHIND
    assert store.take_is_cold() is not any(before)


def test_what_was_in_memory_before_stays_there(tmp_path: Path, cache: FileCache) -> None:
    content = _file(tmp_path)
    assert (tmp_path / "log").read_bytes() == content
    store = CacheNeutralFiles(str(tmp_path), cache)
    assert _read(store) == content
    assert all(_pages_in_memory(tmp_path / "log"))
    assert not store.take_is_cold()


def test_only_the_cold_part_of_a_file_is_dropped(tmp_path: Path, cache: FileCache) -> None:
    content = _file(tmp_path)
    with (tmp_path / "log").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), PAGES // 4 * mmap.PAGESIZE, 0)
    before = _pages_in_memory(tmp_path / "log")
    assert _read(CacheNeutralFiles(str(tmp_path), cache)) == content
    after = _pages_in_memory(tmp_path / "log")
    assert sum(was and not stays for was, stays in zip(before, after, strict=True)) <= 2
    assert sum(after) - sum(before) <= LEFT_BEHIND


def test_pieces_that_somebody_has_stay_as_they_were_read(tmp_path: Path, cache: FileCache) -> None:
    content = _file(tmp_path)
    assert (tmp_path / "log").read_bytes() == content
    file = CacheNeutralFiles(str(tmp_path), cache).open("log")
    places = [(0, 100), (100, 70_000), (500, 3), (70_000, 200_000), (9, 9), (len(content) - 5, 100), (0, 200_000)]
    pieces = [(at, size, file.read_at(size, at)) for at, size in places]
    views = [memoryview(file.read_at(size, at)) for at, size in places]
    assert [piece for _, _, piece in pieces] == [content[at : at + size] for at, size in places]
    assert views == [content[at : at + size] for at, size in places]
    last = [file.read_at(size, at) for at, size in places][-1]
    assert last == content[:200_000]
