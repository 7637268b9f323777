"""Replicas that the controller of a cluster has deleted: is their worker there, and can it rename their directories?"""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.shared_memory.partition_table import TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.cluster.control_requests import (
    EPOCH_DURING_DELETE,
    LeaderAndIsrResponse,
    StopReplicaPartition,
    StopReplicaResponse,
)
from kafkad.core.cluster.request_parts import ControlRequest, ControlResponse
from kafkad.core.controller.image import NO_SLOT
from kafkad.core.errors import ErrorCode
from kafkad.core.partition_slot import STATE_FREE, STATE_ONLINE, PartitionSlot
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS
from kafkad.processes.controller.control_request_queue import ControlRequestQueue
from kafkad.processes.controller.replica_removals import ReplicaRemovals
from tests.core.hosting.test_hosting import CONFIGS, ID, a_host, a_state, led, row, stopped

NOW_MS = 1_000
REMOVED_IN = 1
"""The leader epoch in which a reassignment removed the replicas."""


class Scene:
    """A broker that hosts two partitions; it has no workers, until one is linked."""

    def __init__(self, folder: Path) -> None:
        self.host = a_host()
        self.homes = [LogDirectory(folder / name) for name in ("first", "second")]
        self.table = PartitionTable(SharedRegion("partitions", TABLE_BYTES))
        self.removals = ReplicaRemovals(self.table, self.homes, self.host.unremoved)
        self.host.leader_and_isr(led(a_state(), a_state(1)), CONFIGS)
        self.host.take_deltas()
        self.rows = [row(self.host), row(self.host, 1)]
        for each in self.rows:
            self.table.publish(each.slot, PartitionSlot(topic_id=ID.bytes, state=STATE_ONLINE))
            (self.homes[each.log_dir].path / f"t-{each.index}").mkdir()
        self.answers: list[ControlResponse] = []
        self.requests = ControlRequestQueue(
            self.host, lambda *_: None, lambda _: None, self._publish, self.removals, lambda: True
        )
        self.published = self.host.image

    def _publish(self) -> None:
        before, self.published = self.published, self.host.image
        self.removals.began(before, self.host.take_deltas())

    def with_workers(self) -> None:
        for owner in {each.owner for each in self.rows}:
            self.removals.worker_linked(owner)

    def hand(self, request: ControlRequest) -> None:
        self.requests.add(request, self.answers.append, NOW_MS)
        self.tick()

    def tick(self) -> None:
        self.requests.tick(NOW_MS)
        while self.requests.is_under_way:
            self.requests.tick(NOW_MS)

    def answer(self, *, applied: int | None = None, now_ms: int = NOW_MS) -> list[ErrorCode]:
        """What StopReplica was answered for each partition, when the workers have applied what it changed."""
        self.requests.send_ready(self.host.image.version if applied is None else applied, now_ms)
        (answer,) = self.answers
        self.answers.clear()
        assert isinstance(answer, StopReplicaResponse)
        return [each.error_code for each in answer.partition_errors]

    def delete(self) -> list[ErrorCode]:
        """What StopReplica is answered for each partition."""
        self.order_deletion()
        return self.answer()

    def order_deletion(self, leader_epoch: int = EPOCH_DURING_DELETE) -> None:
        """Of the topic, or only of the replicas here."""
        states = [
            StopReplicaPartition(partition_index=each.index, leader_epoch=leader_epoch, delete_partition=True)
            for each in self.rows
        ]
        self.hand(stopped(*states))


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


def test_a_live_worker_that_cannot_rename_a_directory_has_not_removed_the_replica(scene: Scene) -> None:
    scene.with_workers()
    first, second = scene.rows
    scene.order_deletion()
    scene.removals.failed(first.slot, "Input/output error", is_full=False)
    scene.removals.removed([second.slot])
    assert scene.answer() == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert list(scene.removals.take_failed()) == [first.log_dir]


def test_it_is_removed_when_its_directory_could_be_renamed_after_all(scene: Scene) -> None:
    """The controller asks again: the broker does not host it any more, and still has its directory."""
    scene.with_workers()
    first, second = scene.rows
    scene.order_deletion()
    scene.removals.failed(first.slot, "No space left on device", is_full=True)
    scene.removals.removed([second.slot])
    assert scene.answer() == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert scene.removals.take_failed() == {}
    assert scene.delete() == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    scene.removals.removed([first.slot])
    assert scene.delete() == [ErrorCode.NONE, ErrorCode.NONE]


def test_what_a_worker_has_not_come_to_in_time_is_not_removed(scene: Scene) -> None:
    scene.with_workers()
    scene.order_deletion()
    before = scene.host.image.version - 1
    scene.removals.removed([scene.rows[1].slot])
    late_ms = NOW_MS + LONGEST_WAIT_MS
    assert scene.answer(applied=before, now_ms=late_ms) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]


def test_a_replica_comes_back_when_its_directory_of_before_has_lost_its_name(scene: Scene) -> None:
    """A worker would open the directory that another, or the same, is about to rename."""
    scene.with_workers()
    scene.order_deletion(REMOVED_IN)
    scene.answer()
    scene.hand(led(a_state(leader_epoch=9)))
    assert row(scene.host).slot == NO_SLOT
    scene.removals.removed([each.slot for each in scene.rows])
    scene.tick()
    assert row(scene.host).slot != NO_SLOT


def test_it_does_not_come_back_while_the_directory_cannot_be_renamed(scene: Scene) -> None:
    scene.with_workers()
    scene.order_deletion(REMOVED_IN)
    for each in scene.rows:
        scene.removals.failed(each.slot, "No space left on device", is_full=True)
    scene.answer()
    scene.hand(led(a_state(leader_epoch=9)))
    scene.requests.send_ready(scene.host.image.version, NOW_MS)
    (answer,) = scene.answers
    assert isinstance(answer, LeaderAndIsrResponse)
    assert [each.error_code for each in answer.topics[0].partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]
