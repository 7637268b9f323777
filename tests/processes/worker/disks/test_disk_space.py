"""How often is a disk looked at, and who hears that it is nearly full?"""

from pathlib import Path

import pytest

from kafkad.adapters.files import free_space
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.config import BrokerConfig
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.processes.worker.disks.disk_space import CHECK_INTERVAL_MS, FULL_MS, RECHECK_MS, REPEAT_MS, DiskSpace
from kafkad.processes.worker.outbox import Outbox
from tests.config.configurations import configured

MB = 1 << 20


class Volume:
    """Stands where `free_space` says `os`: one file system of 100 MB."""

    f_frsize = 1
    f_blocks = 100 * MB

    def __init__(self, free: int) -> None:
        self.f_bavail = free
        self.looks = 0

    def statvfs(self, _path: str) -> "Volume":
        self.looks += 1
        return self


def keeping(free_bytes: int) -> BrokerConfig:
    return configured(("kafkad.log.dirs.min.free.bytes", str(free_bytes)))


class Disk:
    """A room of one directory whose clients must leave 10 MB."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
        self.volume = Volume(free)
        monkeypatch.setattr(free_space, "os", self.volume)
        self.outbox = Outbox({})
        self.directory = LogDirectory(path)
        self.space = DiskSpace([self.directory], keeping(10 * MB), self.outbox)
        self._cleaned: list[int] = []
        self._told: list[set[int]] = []

    @property
    def cleaned(self) -> list[int]:
        """The directories for which space was requested."""
        self.perform()
        return self._cleaned

    @property
    def told(self) -> list[set[int]]:
        """The directories without space, after each change that was performed."""
        self.perform()
        return self._told

    def perform(self) -> None:
        effects = self.outbox.take()
        self._cleaned += effects.short_dirs
        if effects.has_full_dirs_changed:
            self._told.append(set(self.space.without_space))

    def is_refused(self, now_ms: int) -> bool:
        try:
            self.space.require_space(0, now_ms)
        except KafkaError as error:
            assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
            return True
        return False


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch, 50 * MB)


def test_disk_is_looked_at_once_a_second_and_not_for_each_pass(disk: Disk) -> None:
    for now_ms in range(0, 2 * CHECK_INTERVAL_MS, 10):
        disk.space.written(now_ms, 0)
    assert disk.volume.looks == 2


def test_much_that_is_written_has_it_looked_at_before_the_room_is_gone(disk: Disk) -> None:
    disk.space.written(0, 0)
    written = 0
    while not disk.space.short:
        written += MB
        disk.volume.f_bavail = 50 * MB - written
        disk.space.written(1, written)
    assert 10 * MB - 2 * MB <= disk.volume.f_bavail < 10 * MB


def test_nearly_full_disk_is_said_once_and_cleaned_now_and_then(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    disk.volume.f_bavail = 9 * MB
    for now_ms in range(0, REPEAT_MS, CHECK_INTERVAL_MS):
        disk.space.written(now_ms, 0)
    assert disk.cleaned == [0]
    disk.space.written(REPEAT_MS, 0)
    assert disk.cleaned == [0, 0]
    (line,) = caplog.messages
    assert line == (
        f"log directory {disk.directory.path} has 9216 KB of free space, less than "
        f"kafkad.log.dirs.min.free.bytes={10 * MB}: clients can produce to it again at 12 MB"
    )


def test_refused_clients_have_it_looked_at_and_go_on_when_there_is_some_more_room(disk: Disk) -> None:
    disk.volume.f_bavail = 9 * MB
    disk.space.written(0, 0)
    looks = disk.volume.looks
    assert [disk.is_refused(now_ms) for now_ms in range(1, 10)] == [True] * 9
    assert disk.volume.looks == looks
    disk.volume.f_bavail = 11 * MB
    assert disk.is_refused(RECHECK_MS)
    disk.volume.f_bavail = 13 * MB
    assert disk.is_refused(RECHECK_MS + 1)
    assert not disk.is_refused(2 * RECHECK_MS)
    assert not disk.space.short


def test_changed_limit_counts_at_the_next_look(disk: Disk) -> None:
    disk.volume.f_bavail = 9 * MB
    disk.space.written(0, 0)
    disk.space.configure(keeping(0))
    assert not disk.is_refused(RECHECK_MS)
    disk.space.configure(configured())
    disk.volume.f_bavail = 4 * MB
    disk.space.written(2 * CHECK_INTERVAL_MS, 0)
    assert disk.space.short


def test_write_that_did_not_fit_has_the_directory_cleaned_whatever_is_free(disk: Disk) -> None:
    disk.space.found_full(0, 0)
    disk.space.found_full(0, 1)
    assert disk.cleaned == [0]
    assert not disk.space.short


def test_changes_of_the_directories_without_room_are_told_once(disk: Disk) -> None:
    for free, now_ms in ((50, 0), (9, 1_000), (8, 2_000), (50, 3_000), (50, 4_000)):
        disk.volume.f_bavail = free * MB
        disk.space.written(now_ms, 0)
        disk.perform()
    assert disk.told == [{0}, set()]


def test_write_that_did_not_fit_counts_for_a_minute_whatever_is_free(disk: Disk) -> None:
    """And a next one for another minute."""
    disk.space.found_full(0, 0)
    assert disk.told == [{0}]
    assert disk.space.next_check_ms == REPEAT_MS
    disk.space.check_again(FULL_MS - 1)
    disk.space.found_full(0, FULL_MS - 1)
    disk.space.check_again(2 * FULL_MS - 2)
    assert disk.told == [{0}]
    due_ms = disk.space.next_check_ms
    assert due_ms is not None
    disk.space.check_again(due_ms)
    assert disk.told == [{0}, set()]
    assert disk.space.next_check_ms is None


def test_directory_that_is_offline_is_short_of_nothing(disk: Disk) -> None:
    disk.volume.f_bavail = 0
    disk.space.written(0, 0)
    disk.perform()
    disk.space.forget(0, 1)
    disk.space.written(CHECK_INTERVAL_MS, 0)
    assert not disk.space.short
    assert disk.told == [{0}, set()]


def test_room_that_others_have_made_is_seen_without_a_client(disk: Disk) -> None:
    """Retention has removed segments, and nobody produces."""
    disk.volume.f_bavail = 9 * MB
    disk.space.written(0, 0)
    assert disk.space.next_check_ms == REPEAT_MS
    disk.volume.f_bavail = 50 * MB
    disk.space.check_again(REPEAT_MS - 1)
    assert disk.space.short
    disk.space.check_again(REPEAT_MS)
    assert not disk.space.short
    assert disk.space.next_check_ms is None


def test_files_that_are_removed_have_it_looked_at(disk: Disk) -> None:
    disk.volume.f_bavail = 9 * MB
    disk.space.written(0, 0)
    disk.volume.f_bavail = 50 * MB
    disk.space.files_removed(1)
    assert not disk.space.short
    looks = disk.volume.looks
    disk.space.files_removed(2)
    assert disk.volume.looks == looks


def test_it_is_cleaned_now_and_then_while_nobody_produces(disk: Disk) -> None:
    disk.volume.f_bavail = 9 * MB
    disk.space.written(0, 0)
    disk.space.check_again(REPEAT_MS)
    assert disk.cleaned == [0, 0]
