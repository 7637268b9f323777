"""A broker that is killed before any step of a topic's deletion, in real directories: the next start ends it."""

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.files.log_directory import LogDirectory, write_partition_metadata
from kafkad.adapters.shared_memory.partition_table import TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.controller.store.nodes import DELETIONS
from kafkad.core.controller.topics.pending_deletion import OFFLINE
from kafkad.processes.controller.log_dirs import scan
from kafkad.processes.controller.topic_deletion import TopicDeletions
from tests.core.controller.world import World
from tests.tools.mortal_process import Died, MortalProcess

FILES = ("00000000000000000000.log", "00000000000000000000.index", "leader-epoch-checkpoint")


class Broker:
    """Its controller, life after life: all workers are dead, so it removes directories itself."""

    def __init__(self, folder: Path) -> None:
        self.homes = [LogDirectory(folder / name) for name in ("one", "two")]
        self.world = World(disks=len(self.homes))
        self.table = PartitionTable(SharedRegion("partitions", TABLE_BYTES))
        self.world.start()
        self.deletions = TopicDeletions(self.world.controller, self.table, self.homes)
        for name in ("orders", "others"):
            self.world.create(name, partitions=2)
        for topic in self.world.controller.image.topics.values():
            for row in topic.partitions:
                home = self.homes[row.log_dir].path / f"{topic.name}-{row.index}"
                home.mkdir()
                write_partition_metadata(home, topic.id)
                for name in FILES:
                    (home / name).write_text(name)
        self.world.controller.take_deltas()

    def directories(self) -> list[Path]:
        return sorted(path for home in self.homes for path in home.path.iterdir() if path.is_dir())

    def delete(self) -> None:
        before = self.world.controller.image
        self.world.controller.delete_topics(["orders"])
        self.deletions.began(before, self.world.controller.take_deltas())
        self._finish()

    def start_again(self) -> None:
        for at, home in enumerate(self.homes):
            self.world.disks[at] = {each.name: each.topic_id for each in scan(at, home.path, lambda *_: True)}
        self.world.start()
        assert self.world.started is not None
        found = self.world.started.reconciliation
        assert (found.adopted, found.stray, found.missing) == ([], [], [])
        self.deletions = TopicDeletions(self.world.controller, self.table, self.homes)
        self.deletions.complete_earlier_deletions(found, is_first_incarnation=True)
        self._finish()

    def _finish(self) -> None:
        """What the shell does from pass to pass."""
        while self.world.controller.has_unfinished_deletions:
            for log_dir in self.deletions.finish(self.world.offline):
                self.world.controller.directory_failed(log_dir)

    def run(self, work: Callable[[], None], mortal: MortalProcess | None = None) -> None:
        """Until the directories are removed, or it is dead."""
        with suppress(Died):
            work()
            deadline = time.monotonic() + WITHIN_S
            while self._leaving() and not (mortal is not None and mortal.is_dead):
                assert time.monotonic() < deadline, f"not removed: {self._leaving()}"
        self.deletions.close()

    def _leaving(self) -> list[str]:
        return [path.name for path in self.directories() if path.name.endswith("-delete")]

    def check_is_ended(self) -> None:
        topics = self.world.controller.image.topics
        assert set(topics) == {"others"}
        assert self.world.store.children(DELETIONS) == []
        assert sorted(path.name for path in self.directories()) == ["others-0", "others-1"]
        for path in self.directories():
            assert [(path / name).read_text() for name in FILES] == list(FILES)


def test_a_deletion_that_is_stopped_before_any_step_is_ended_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(1000):
        broker = Broker(tmp_path / str(step))
        with monkeypatch.context() as patch:
            mortal = MortalProcess(patch, step)
            broker.run(broker.delete, mortal)
        broker.run(broker.start_again)
        broker.check_is_ended()
        if not mortal.is_dead:
            break
    # Two names, and in each of the two directories four files and itself.
    assert step == 12


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_lives_that_make_few_steps_each_end_it_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    broker = Broker(tmp_path)
    work: Callable[[], None] = broker.delete
    lives = 0
    is_dead = True
    while is_dead:
        with monkeypatch.context() as patch:
            mortal = MortalProcess(patch, changes)
            broker.run(work, mortal)
        is_dead, work = mortal.is_dead, broker.start_again
        lives += 1
    broker.check_is_ended()
    assert lives == 12 // changes


def test_the_record_goes_when_no_loss_of_power_can_bring_a_directory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start would take it over as a topic."""
    broker = Broker(tmp_path)
    synced: list[Path] = []

    def fsync(fd: int) -> None:
        assert broker.world.store.children(DELETIONS) == ["orders"]
        assert not [each for each in broker.directories() if each.name in ("orders-0", "orders-1")]
        synced.append(Path(f"/proc/self/fd/{fd}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    broker.run(broker.delete)
    assert synced == [home.path for home in broker.homes]
    broker.check_is_ended()


def _fails(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_directory_that_can_not_be_synced_keeps_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _fails)
        broker.run(broker.delete)
    assert broker.world.controller.deletions["orders"].remaining == {OFFLINE}
    assert broker.world.store.children(DELETIONS) == ["orders"]
    broker.run(broker.start_again)
    broker.check_is_ended()


def test_a_directory_that_can_not_be_renamed_keeps_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It kept its name, and the next start took it over as a topic: the records that were deleted were back."""
    broker = Broker(tmp_path)
    for work in (broker.delete, broker.start_again):
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", _fails)
            broker.run(work)
        assert broker.world.store.children(DELETIONS) == ["orders"]
    broker.run(broker.start_again)
    broker.check_is_ended()
