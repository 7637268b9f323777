"""What the core may expect of a `SegmentStore`, asked of the fake and of real files alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.core.ports import SegmentStore
from tests.core.log.fake_store import FakeStore


@pytest.fixture(params=["fake", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SegmentStore]:
    if request.param == "fake":
        yield FakeStore()
        return
    cache = FileCache(3)
    yield SegmentFiles(tmp_path, cache)
    cache.close_all()


def test_what_is_written_at_a_position_is_read_back(store: SegmentStore) -> None:
    file = store.open("a", create=True)
    file.write_at((b"hello ", memoryview(b"world")), 0)
    file.write_at((b"W",), 6)
    assert file.read_at(100, 0) == b"hello World"
    assert file.read_at(3, 8) == b"rld"
    assert file.read_at(0, 0) == file.read_at(5, 100) == b""
    assert file.size() == 11
    assert store.sizes() == {"a": 11}


def test_truncating_cuts_and_stretches_with_zeros(store: SegmentStore) -> None:
    file = store.open("a", create=True)
    file.write_at((b"hello",), 0)
    file.truncate(2)
    assert file.read_at(10, 0) == b"he"
    file.truncate(4)
    assert file.read_at(10, 0) == b"he\0\0"
    file.sync()


def test_what_is_lent_can_be_synced_whether_it_is_open_or_not(store: SegmentStore) -> None:
    file = store.open("a", create=True)
    for _ in range(2):
        lent = file.lend()
        lent.sync()
        lent.free()
        file.write_at((b"hello",), 0)
    file.close()
    assert file.read_at(10, 0) == b"hello"
    with pytest.raises(FileNotFoundError):
        store.open("b").lend().sync()


def test_a_file_that_is_not_there_is_not_found(store: SegmentStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.open("a").read_at(1, 0)
    with pytest.raises(FileNotFoundError):
        store.open("a").sync()
    for call in (store.read, store.modified_ms):
        with pytest.raises(FileNotFoundError):
            call("a")
    with pytest.raises(FileNotFoundError):
        store.rename("a", "b")
    store.unlink("a")


def test_whether_there_is_a_file_is_asked_without_opening_it(store: SegmentStore) -> None:
    assert not store.has("a")
    store.open("a", create=True)
    assert store.has("a")
    store.rename("a", "b")
    assert (store.has("a"), store.has("b")) == (False, True)


def test_creating_a_file_that_exists_keeps_it(store: SegmentStore) -> None:
    store.open("a", create=True).write_at((b"x",), 0)
    assert store.open("a", create=True).read_at(1, 0) == b"x"


def test_replacing_writes_the_whole_file(store: SegmentStore) -> None:
    store.replace("a", b"long content")
    store.replace("a", b"short")
    assert store.read("a") == b"short"
    assert set(store.sizes()) == {"a"}


def test_an_open_file_can_be_read_after_it_was_renamed_or_removed(store: SegmentStore) -> None:
    file = store.open("a", create=True)
    file.write_at((b"x",), 0)
    store.rename("a", "b")
    assert set(store.sizes()) == {"b"}
    store.unlink("b")
    store.sync_directory()
    assert file.read_at(1, 0) == b"x"
    assert store.sizes() == {}


def test_a_closed_file_opens_again(store: SegmentStore) -> None:
    file = store.open("a", create=True)
    file.write_at((b"x",), 0)
    file.close()
    file.close()
    assert file.read_at(1, 0) == b"x"


def test_a_file_may_be_as_old_as_another(store: SegmentStore) -> None:
    file = store.open("a", create=True)
    file.write_at((b"hello",), 0)
    store.set_modified_ms("a", 1_234_567_890_123)
    file.sync()
    assert store.modified_ms("a") == 1_234_567_890_123
    with pytest.raises(FileNotFoundError):
        store.set_modified_ms("b", 1)


def test_names_are_those_of_the_files_that_are_there(store: SegmentStore) -> None:
    for name in ("a", "b", "c"):
        store.open(name, create=True)
    store.unlink("b")
    store.rename("c", "d")
    assert sorted(store.names()) == sorted(store.sizes()) == ["a", "d"]
