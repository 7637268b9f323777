"""A broker that is killed before any step of a topic's deletion, in real directories: the next start ends it."""

import errno
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.files.log_directory import LogDirectory, write_partition_metadata
from kafkad.adapters.shared_memory.partition_table import TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.controller.store.nodes import DELETIONS
from kafkad.core.hosting.hosting import Hosting
from kafkad.processes.controller.control_request_queue import ControlRequestQueue
from kafkad.processes.controller.log_dirs import scan
from kafkad.processes.controller.replica_removals import ReplicaRemovals
from kafkad.processes.controller.requests.broker_channels import handle_broker_response
from kafkad.processes.controller.tree_reader import Configs, topic_configs
from tests.core.controller.world import BROKER_ID, World
from tests.simulation.ports import AtOnce
from tests.tools.mortal_process import Died, MortalProcess

FILES = ("00000000000000000000.log", "00000000000000000000.index", "leader-epoch-checkpoint")


class Applied(World):
    """Its broker applies requests as the controller process does; all workers are dead, so it removes directories."""

    def __init__(self, homes: Sequence[LogDirectory]) -> None:
        super().__init__(disks=len(homes))
        self._homes = homes
        self._table = PartitionTable(SharedRegion("partitions", TABLE_BYTES))
        self._of: Hosting | None = None
        self.removals: ReplicaRemovals | None = None
        self._reads: list[Callable[[], None]] = []

    def _begin(self) -> None:
        self._of = self.hosting
        self.hosting.take_deltas()
        self._published = self.hosting.image
        self.removals = ReplicaRemovals(self._table, self._homes, self.hosting.unremoved)
        self.requests = ControlRequestQueue(
            self.hosting, self._read_configs, lambda _: None, self._publish, self.removals, lambda: True
        )

    def _read_configs(self, names: set[str], done: Callable[[Future[Configs]], None]) -> None:
        self._reads.append(partial(done, AtOnce(1, "store").submit(topic_configs, self.store, names)))

    def _publish(self) -> None:
        assert self.removals is not None
        before, self._published = self._published, self.hosting.image
        self.removals.began(before, self.hosting.take_deltas())

    def deliver(self) -> None:
        if self._of is not self.hosting:
            self._begin()
        while requests := self.controller.take_requests():
            for _, request in requests:
                respond = partial(handle_broker_response, self.controller, BROKER_ID, request)
                self.requests.add(request, respond, 0)
            while self._reads or self.requests.is_under_way:
                reads, self._reads = self._reads, []
                for read in reads:
                    read()
                self.requests.tick(0)
            self.requests.send_ready(self.hosting.image.version, 0)

    def close(self) -> None:
        if self.removals is not None:
            self.removals.close()


class Broker:
    """Life after life."""

    def __init__(self, folder: Path) -> None:
        self.homes = [LogDirectory(folder / name) for name in ("one", "two")]
        self.world = Applied(self.homes)
        self.world.start()
        for name in ("orders", "others"):
            self.world.create(name, partitions=2)
        for topic in self.world.image.topics.values():
            for row in topic.partitions:
                home = self.homes[row.log_dir].path / f"{topic.name}-{row.index}"
                home.mkdir()
                write_partition_metadata(home, topic.id)
                for name in FILES:
                    (home / name).write_text(name)

    def directories(self) -> list[Path]:
        return sorted(path for home in self.homes for path in home.path.iterdir() if path.is_dir())

    def delete(self) -> None:
        self.world.delete("orders")

    def start_again(self) -> None:
        for at, home in enumerate(self.homes):
            self.world.disks[at] = {each.name: each.topic_id for each in scan(at, home.path, lambda *_: True)}
        self.world.close()
        self.world.start()
        assert self.world.taken_over is not None and self.world.removals is not None
        found = self.world.taken_over.reconciliation
        assert (found.adopted, found.stray, found.missing) == ([], [], [])
        self.world.removals.remove_leftovers(self.homes[each.log_dir].path / each.name for each in self.world.leftovers)

    def run(self, work: Callable[[], None], mortal: MortalProcess | None = None) -> None:
        """Until the directories are removed, or it is dead."""
        with suppress(Died):
            work()
            deadline = time.monotonic() + WITHIN_S
            while self._leaving() and not (mortal is not None and mortal.is_dead):
                assert time.monotonic() < deadline, f"not removed: {self._leaving()}"
        self.world.close()

    def _leaving(self) -> list[str]:
        return [path.name for path in self.directories() if path.name.endswith("-delete")]

    def check_is_ended(self) -> None:
        topics = self.world.image.topics
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
    assert broker.world.controller.deletions["orders"].failed == {BROKER_ID}
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
