"""Real files: the budget of open ones, and what happens when the disk refuses."""

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from typing_extensions import Buffer

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.log_directory import write_partition_metadata
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.core.ports import NoSpaceLeft, NotInMemory, StorageFailed
from tests.core.log.batches import append, batch, load


@pytest.fixture
def cache() -> Iterator[FileCache]:
    cache = FileCache(4)
    yield cache
    cache.close_all()


def test_never_more_files_are_open_than_the_budget_says(tmp_path: Path, cache: FileCache) -> None:
    store = SegmentFiles(tmp_path, cache)
    files = [store.open(str(number), create=True) for number in range(20)]
    for turn in range(3):
        for file in files:
            file.write_at((b"x",), turn)
            assert cache.open_count <= 4
    assert [file.size() for file in files] == [3] * 20


def test_a_file_in_use_stays_open_and_the_idle_one_goes(tmp_path: Path, cache: FileCache) -> None:
    store = SegmentFiles(tmp_path, cache)
    pinned = store.open("pinned", create=True)
    descriptor = pinned.pin()
    for number in range(10):
        store.open(str(number), create=True).write_at((b"x",), 0)
    assert pinned.fd == descriptor
    os.fstat(descriptor)
    pinned.unpin()
    for number in range(10):
        store.open(str(number)).read_at(1, 0)
    assert pinned.fd == -1


def test_pinned_files_alone_may_exceed_the_budget(tmp_path: Path, cache: FileCache) -> None:
    store = SegmentFiles(tmp_path, cache)
    files = [store.open(str(number), create=True) for number in range(8)]
    for file in files:
        file.pin()
    assert cache.open_count == 8
    for file in files:
        file.unpin()


def test_running_out_of_descriptors_gives_a_file_back_instead(tmp_path: Path) -> None:
    cache = FileCache(100_000)
    store = SegmentFiles(tmp_path, cache)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = [store.open(str(number), create=True) for number in range(60)]
    try:
        in_use = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 20, hard))
        for file in files:
            file.write_at((b"x",), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        cache.close_all()
    assert all((tmp_path / str(number)).read_bytes() == b"x" for number in range(60))


def test_a_reader_can_not_write(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    cache = FileCache(4, read_only=True)
    file = SegmentFiles(tmp_path, cache).open("a")
    assert file.read_at(1, 0) == b"x"
    with pytest.raises(StorageFailed):
        file.write_at((b"y",), 0)
    cache.close_all()


def test_a_file_is_synced_from_another_thread(tmp_path: Path, cache: FileCache) -> None:
    log = load(SegmentFiles(tmp_path, cache))
    append(log, batch(1))
    effect = log.flush_effect(log.log_end_offset)
    thread = threading.Thread(target=effect.perform)
    thread.start()
    thread.join()
    log.flushed(effect)
    assert log.recovery_point == 1


def test_what_is_lent_stays_open_until_it_is_given_back(tmp_path: Path, cache: FileCache) -> None:
    """A sync through another descriptor may miss that what this one wrote could not be written."""
    store = SegmentFiles(tmp_path, cache)
    file = store.open("a", create=True)
    file.write_at((b"x",), 0)
    descriptor, lent = file.fd, file.lend()
    for number in range(20):
        store.open(f"other-{number}", create=True).write_at((b"y",), 0)
    file.close()
    assert file.fd == descriptor
    lent.sync()
    lent.free()
    assert file.fd == -1


def test_what_is_lent_closed_costs_no_descriptor_of_the_cache(tmp_path: Path, cache: FileCache) -> None:
    file = SegmentFiles(tmp_path, cache).open("a", create=True)
    lent = file.lend()
    file.write_at((b"x",), 0)
    lent.sync()
    assert cache.open_count == 1
    lent.free()
    assert file.fd >= 0


def short_pwritev(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    return os.pwrite(fd, b"".join(buffers)[:3], position)


def test_a_short_write_is_continued(tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SegmentFiles(tmp_path, cache).open("a", create=True)
    monkeypatch.setattr(os, "pwritev", short_pwritev)
    file.write_at((b"hello ", b"world"), 0)
    assert file.read_at(20, 0) == b"hello world"


def test_a_write_that_does_not_fit_is_taken_back(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SegmentFiles(tmp_path, cache).open("a", create=True)
    file.write_at((b"hello",), 0)

    def full(fd: int, data: Buffer, position: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def cut_short(fd: int, _buffers: object, position: int) -> int:
        os.ftruncate(fd, position + 2)
        return 2

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", cut_short)
        patched.setattr(os, "pwrite", full)
        with pytest.raises(NoSpaceLeft):
            file.write_at((b" world",), 5)
    assert file.read_at(20, 0) == b"hello"


def test_a_write_that_can_not_be_taken_back_takes_the_directory_offline(tmp_path: Path, cache: FileCache) -> None:
    """/dev/full has no room for one byte, and can't be truncated."""
    (tmp_path / "full").symlink_to("/dev/full")
    file = SegmentFiles(tmp_path, cache).open("full")
    with pytest.raises(StorageFailed) as refused:
        file.write_at((b"x",), 0)
    assert not isinstance(refused.value, NoSpaceLeft)


def test_any_other_failure_takes_the_directory_offline(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SegmentFiles(tmp_path, cache).open("a", create=True)

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwritev", broken)
    monkeypatch.setattr(os, "fsync", broken)
    calls: tuple[Callable[[], object], ...] = (lambda: file.write_at((b"x",), 0), file.sync)
    for call in calls:
        with pytest.raises(StorageFailed) as failed:
            call()
        assert not isinstance(failed.value, NoSpaceLeft)


def test_a_log_on_real_files_survives_being_reopened(tmp_path: Path, cache: FileCache) -> None:
    store = SegmentFiles(tmp_path, cache)
    log = load(store)
    for _ in range(40):
        append(log, batch(2))
    end = log.log_end
    log.abandon()
    assert cache.open_count <= 4
    recovered = load(store)
    assert recovered.log_end == end
    recovered.close()
    assert load(store, was_clean=True, recovery_point=80).log_end == end


def test_reader_that_must_not_wait_is_told_what_is_not_in_memory(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def would_wait(fd: int, buffers: Sequence[Buffer], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        raise BlockingIOError(errno.EAGAIN, "not in the page cache")

    file = SegmentFiles(tmp_path, cache).open("file", create=True)
    file.write_at((b"content",), 0)
    cache.may_wait = False
    assert file.read_at(100, 3) == b"tent"
    monkeypatch.setattr(os, "preadv", would_wait)
    with pytest.raises(NotInMemory):
        file.read_at(4, 0)
    cache.may_wait = True
    assert file.read_at(4, 0) == b"cont"


def test_file_system_that_can_not_say_what_is_in_memory_is_read(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_supported(fd: int, buffers: Sequence[Buffer], position: int, flags: int) -> int:
        raise OSError(errno.EOPNOTSUPP, "no such flag here")

    file = SegmentFiles(tmp_path, cache).open("file", create=True)
    file.write_at((b"content",), 0)
    cache.may_wait = False
    monkeypatch.setattr(os, "preadv", not_supported)
    assert file.read_at(4, 0) == b"cont"


def test_first_sync_of_a_directory_makes_its_own_name_last(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is synced in a directory that is gone after a power loss is gone as well."""
    (tmp_path / "t-0").mkdir()
    store = SegmentFiles(tmp_path / "t-0", cache)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    store.sync_directory()
    store.sync_directory()
    assert synced == [str(tmp_path / "t-0"), str(tmp_path)]


def test_the_topic_id_of_a_new_directory_is_on_disk_with_its_first_records(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name without its content is what takes a log directory of Apache Kafka offline."""
    (tmp_path / "t-0").mkdir()
    write_partition_metadata(tmp_path / "t-0", uuid4())
    store = SegmentFiles(tmp_path / "t-0", cache)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
    for _ in range(2):
        store.sync_directory()
    assert synced == ["partition.metadata", "t-0", tmp_path.name]


def test_what_is_on_disk_is_not_synced_again(tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush names all files that recovery needs: most of them have not changed since the one before."""
    store = SegmentFiles(tmp_path, cache)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
    file = store.open("a", create=True)
    for change in ("none", "write", "truncate"):
        if change == "write":
            file.write_at((b"hello",), 0)
        elif change == "truncate":
            file.truncate(2)
        for _ in range(2):
            file.sync()
    assert synced == ["a"] * 3
    store.open("a").sync()
    assert synced == ["a"] * 4, "another handle does not know what was written before"


def test_names_that_last_are_not_synced_again(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SegmentFiles(tmp_path, cache)
    store.sync_directory()
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for change in ("create", "rename", "remove"):
        if change == "create":
            store.open("a", create=True)
        elif change == "rename":
            store.rename("a", "b")
        else:
            store.unlink("b")
        for _ in range(2):
            store.sync_directory()
    assert len(synced) == 3


def test_names_are_on_disk_when_a_second_sync_of_them_returns(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread syncs the directory, and before it has ended the owner wants the same on disk."""
    store = SegmentFiles(tmp_path, cache)
    store.sync_directory()
    store.open("a", create=True)
    begun, disk = threading.Event(), threading.Event()

    def slow(_descriptor: int) -> None:
        begun.set()
        assert disk.wait(WITHIN_S)

    monkeypatch.setattr(os, "fsync", slow)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(store.sync_directory)
        assert begun.wait(WITHIN_S)
        second = threads.submit(store.sync_directory)
        with pytest.raises(TimeoutError):
            second.result(timeout=0.1)
        disk.set()
        first.result(WITHIN_S)
        second.result(WITHIN_S)


def test_a_second_sync_waits_for_the_disk_like_the_first(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread syncs the file, and before it has ended the owner wants the same on disk."""
    synced: list[int] = []
    file = SegmentFiles(tmp_path, cache).open("a", create=True)
    file.write_at((b"x",), 0)

    def while_it_is_synced(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 1:
            file.sync()

    monkeypatch.setattr(os, "fsync", while_it_is_synced)
    file.sync()
    assert len(synced) == 2
    file.sync()
    assert len(synced) == 2


def test_what_is_written_during_a_sync_is_synced_by_the_next_one(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    file = SegmentFiles(tmp_path, cache).open("a", create=True)
    file.write_at((b"x",), 0)

    def while_it_is_synced(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 1:
            file.write_at((b"y",), 1)

    monkeypatch.setattr(os, "fsync", while_it_is_synced)
    file.sync()
    file.sync()
    assert len(synced) == 2


def test_a_sync_that_failed_is_not_taken_for_one(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "told to fail")

    file = SegmentFiles(tmp_path, cache).open("a", create=True)
    file.write_at((b"x",), 0)
    monkeypatch.setattr(os, "fsync", fail)
    for _ in range(2):
        with pytest.raises(StorageFailed):
            file.sync()


@pytest.mark.parametrize(("code", "kind"), [(errno.ENOSPC, NoSpaceLeft), (errno.EDQUOT, NoSpaceLeft)])
def test_a_file_that_can_not_be_removed_for_want_of_room_is_no_failed_disk(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    def refuse(_path: str) -> None:
        raise OSError(code, os.strerror(code))

    store = SegmentFiles(tmp_path, cache)
    store.open("a", create=True)
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(kind):
        store.unlink("a")
