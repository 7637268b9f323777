"""When offsets are written into the checkpoint files of the log directories, from the slots of partitions."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad.adapters.files.checkpoint_files import read_offsets
from kafkad.adapters.shared_memory.partition_table import TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.controller.image import MetadataImage, Partition
from kafkad.core.log.recovery.checkpoints import CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.checkpoints import Checkpoints
from tests.core.controller.world import World


class Scene:
    """Two log directories, each with a partition of topic `t`."""

    def __init__(self, folder: Path) -> None:
        self.data = [folder / "a", folder / "b"]
        for each in self.data:
            each.mkdir()
        self._region = SharedRegion("partitions", TABLE_BYTES)
        self.table = PartitionTable(self._region)
        world = World(disks=2)
        world.start()
        world.create("t", partitions=2)
        self.image: MetadataImage = world.image
        self.failed: list[int] = []

    @property
    def rows(self) -> tuple[Partition, ...]:
        return self.image.topics["t"].partitions

    def checkpoints(self, interval_ms: int = 60_000) -> Checkpoints:
        intervals = {HIGH_WATERMARKS: 5_000}
        if interval_ms:
            intervals |= {RECOVERY_POINTS: interval_ms, LOG_START_OFFSETS: interval_ms}
        return Checkpoints(
            list(enumerate(self.data)),
            self.table,
            intervals,
            first_ms={RECOVERY_POINTS: 30_000},
            failed=lambda log_dir, cause: self.failed.append(log_dir),
        )

    def publish(self, partition: int, *, start: int = 0, end: int) -> None:
        """As its worker does."""
        row = self.rows[partition]
        slot = PartitionSlot(
            topic_id=self.image.topics["t"].id.bytes,
            partition=partition,
            owner=row.owner,
            log_dir=row.log_dir,
            state=STATE_ONLINE,
            log_start=start,
            hw_offset=end,
            leo_offset=end,
            recovery_point=end,
            segment_count=1,
        )
        self.table.publish(row.slot, slot)

    def offsets(self, name: str) -> dict[TopicPartition, int]:
        return {key: value for path in self.data for key, value in read_offsets(path, name).items()}

    def close(self) -> None:
        self._region.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    assert {row.log_dir for row in scene.rows} == {0, 1}
    yield scene
    scene.close()


def test_offsets_are_written_into_the_directory_where_the_log_is(scene: Scene) -> None:
    for row in scene.rows:
        scene.publish(row.index, end=10 + row.index)
    scene.checkpoints().write(scene.image)
    for row in scene.rows:
        expected = {TopicPartition("t", row.index): 10 + row.index}
        assert read_offsets(scene.data[row.log_dir], HIGH_WATERMARKS) == expected
        assert read_offsets(scene.data[row.log_dir], RECOVERY_POINTS) == expected


@pytest.mark.parametrize("interval_ms", [0, 60_000])
def test_a_log_that_is_on_disk_less_far_than_it_was_is_checkpointed_at_once(scene: Scene, interval_ms: int) -> None:
    """Also where the files are written at the stop alone. A log that begins beyond its end would be emptied."""
    checkpoints, at = scene.checkpoints(interval_ms), TopicPartition("t", 0)
    scene.publish(0, start=8, end=10)
    checkpoints.write(scene.image)
    scene.publish(0, start=2, end=4)
    checkpoints.moved(1_000)
    checkpoints.write_due(scene.image, 1_000)
    assert scene.offsets(RECOVERY_POINTS) == {at: 10}
    checkpoints.moved(1_000, lowered=True)
    checkpoints.write_due(scene.image, 1_000)
    assert scene.offsets(RECOVERY_POINTS) == {at: 4}
    assert scene.offsets(LOG_START_OFFSETS) == {at: 2}


def test_a_broker_at_rest_is_not_woken_for_checkpoints(scene: Scene) -> None:
    checkpoints = scene.checkpoints()
    checkpoints.write(scene.image)
    assert checkpoints.next_deadline_ms is None
    checkpoints.moved(1_000)
    woken_at: list[int] = []
    while (due_ms := checkpoints.next_deadline_ms) is not None:
        woken_at.append(due_ms)
        checkpoints.write_due(scene.image, due_ms)
    # High watermarks are looked at once more, as a worker may have kept quiet about what moved last; then silence.
    # Recovery points have their first time.
    assert woken_at == [6_000, 11_000, 30_000, 61_000]


def test_moves_that_a_worker_keeps_quiet_about_are_seen(scene: Scene) -> None:
    checkpoints = scene.checkpoints()
    checkpoints.moved(0)
    checkpoints.write_due(scene.image, 5_000)
    scene.publish(0, end=7)
    checkpoints.write_due(scene.image, 10_000)
    assert scene.offsets(HIGH_WATERMARKS) == {TopicPartition("t", 0): 7}


def test_a_directory_that_takes_no_checkpoint_is_reported(scene: Scene) -> None:
    # Nobody can rename a file over a directory, not even root.
    (scene.data[1] / HIGH_WATERMARKS).mkdir()
    checkpoints = scene.checkpoints()
    for row in scene.rows:
        scene.publish(row.index, end=7)
    checkpoints.write(scene.image, [HIGH_WATERMARKS])
    assert scene.failed == [1]
    (here,) = (row.index for row in scene.rows if row.log_dir == 0)
    assert read_offsets(scene.data[0], HIGH_WATERMARKS) == {TopicPartition("t", here): 7}


def test_a_directory_that_was_removed_is_reported(scene: Scene) -> None:
    """The controller process ended, and each one after it."""
    checkpoints = scene.checkpoints()
    shutil.rmtree(scene.data[1])
    for row in scene.rows:
        scene.publish(row.index, end=7)
    checkpoints.write(scene.image, [HIGH_WATERMARKS])
    assert scene.failed == [1]


def test_a_damaged_checkpoint_says_what_follows(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    names = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANED_OFFSETS)
    for name in names:
        (scene.data[0] / name).write_bytes(b"\xff" * 100)
    scene.checkpoints()
    lines = [record.getMessage() for record in caplog.records]
    said = [line.partition(", writing a new file; ")[2].partition(":")[0] for line in lines]
    assert [name for name in names if not any(f"can't read {scene.data[0]}/{name}," in line for line in lines)] == []
    assert len(set(said)) == len(names) == len(lines)


def test_a_partition_without_a_directory_is_known_to_have_no_records(scene: Scene) -> None:
    """Only at the stop: before, its owner may make it at any moment."""
    scene.publish(0, end=10)
    checkpoints = scene.checkpoints()
    checkpoints.write(scene.image)
    assert scene.offsets(HIGH_WATERMARKS) == {TopicPartition("t", 0): 10}
    checkpoints.write_last(scene.image)
    assert scene.offsets(HIGH_WATERMARKS) == {TopicPartition("t", 0): 10, TopicPartition("t", 1): 0}
    assert scene.offsets(LOG_START_OFFSETS) == {TopicPartition("t", 0): 0}


def test_of_a_partition_that_is_not_loaded_yet_nothing_new_is_said(scene: Scene) -> None:
    (scene.data[scene.rows[1].log_dir] / "t-1").mkdir()
    scene.checkpoints().write_last(scene.image)
    assert scene.offsets(HIGH_WATERMARKS) == {TopicPartition("t", 0): 0}
