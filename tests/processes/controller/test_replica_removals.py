"""Replicas that the controller of a cluster has deleted, where the worker that should do so is not there."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.shared_memory.partition_table import TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.cluster.control_requests import EPOCH_DURING_DELETE, StopReplicaPartition, StopReplicaResponse
from kafkad.core.cluster.request_parts import ControlResponse
from kafkad.core.errors import ErrorCode
from kafkad.core.partition_slot import STATE_FREE, STATE_ONLINE, PartitionSlot
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.cluster.handed_requests import HandedRequests
from kafkad.processes.controller.cluster.replica_removals import ReplicaRemovals
from tests.core.hosting.test_hosting import CONFIGS, ID, a_host, a_state, led, row, stopped

NOW_MS = 1_000


class Scene:
    """A broker without workers that hosts two partitions."""

    def __init__(self, folder: Path) -> None:
        self.host = a_host()
        self.homes = [LogDirectory(folder / name) for name in ("first", "second")]
        self.table = PartitionTable(SharedRegion("partitions", TABLE_BYTES))
        self.removals = ReplicaRemovals(self.table, self.homes)
        self.host.leader_and_isr(led(a_state(), a_state(1)), CONFIGS)
        self.host.take_deltas()
        self.rows = [row(self.host), row(self.host, 1)]
        for each in self.rows:
            self.table.publish(each.slot, PartitionSlot(topic_id=ID.bytes, state=STATE_ONLINE))
            (self.homes[each.log_dir].path / f"t-{each.index}").mkdir()
        self.answers: list[ControlResponse] = []
        self.requests = HandedRequests(self.host, lambda *_: None, lambda _: None, self._publish, lambda: True)
        self.published = self.host.image

    def _publish(self) -> set[TopicPartition]:
        before, self.published = self.published, self.host.image
        self.removals.began(before, self.host.take_deltas())
        return self.removals.take_unremoved()

    def delete(self) -> list[ErrorCode]:
        """What StopReplica is answered for each partition."""
        states = [
            StopReplicaPartition(partition_index=each.index, leader_epoch=EPOCH_DURING_DELETE, delete_partition=True)
            for each in self.rows
        ]
        self.requests.add(stopped(*states), self.answers.append, NOW_MS)
        while self.requests.is_under_way:
            self.requests.turn(NOW_MS)
        self.requests.send_ready(self.host.image.version, NOW_MS)
        (answer,) = self.answers
        assert isinstance(answer, StopReplicaResponse)
        return [each.error_code for each in answer.partition_errors]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.removals.close()
    for home in scene.homes:
        home.close()


def fails_in(home: LogDirectory, code: int) -> Callable[[str, str], None]:
    rename = os.rename

    def fail(source: str, target: str) -> None:
        if str(source).startswith(str(home.path)):
            raise OSError(code, os.strerror(code))
        return rename(source, target)

    return fail


def test_what_was_renamed_is_removed(scene: Scene) -> None:
    assert scene.delete() == [ErrorCode.NONE, ErrorCode.NONE]
    assert scene.removals.take_failed() == {}
    assert [scene.table.read(each.slot).state for each in scene.rows] == [STATE_FREE, STATE_FREE]


def test_a_directory_that_cannot_be_renamed_is_not_removed_and_its_log_directory_has_failed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller of the cluster would forget a deletion while records of it are still on a disk."""
    first, second = scene.rows
    monkeypatch.setattr(os, "rename", fails_in(scene.homes[first.log_dir], errno.EIO))
    assert first.log_dir != second.log_dir
    assert scene.delete() == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    failed = scene.removals.take_failed()
    assert list(failed) == [first.log_dir]
    assert (scene.homes[first.log_dir].path / "t-0").exists()


def test_a_disk_without_room_has_not_failed_but_the_replica_is_not_removed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = scene.rows
    monkeypatch.setattr(os, "rename", fails_in(scene.homes[first.log_dir], errno.ENOSPC))
    assert scene.delete() == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert scene.removals.take_failed() == {}
