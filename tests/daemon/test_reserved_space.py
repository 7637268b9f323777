"""Room for checkpoints on a disk that is full, on a real file system, mounted by root. There is no broker."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad.adapters.files.checkpoint_files import read_offsets, write_offsets
from kafkad.adapters.files.reserved_space import SIZE, ReservedSpace
from kafkad.core.ports import NoSpaceLeft
from kafkad.core.types import TopicPartition
from tests.tools.small_disk import SmallDisk

OFFSETS = {TopicPartition("orders", index): index for index in range(10_000)}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", 4 * SIZE) as disk:
        yield disk


def test_kept_room_serves_a_checkpoint_again_and_again_on_a_full_disk(disk: SmallDisk) -> None:
    reserved = ReservedSpace(disk.path)
    reserved.reserve()
    write_offsets(disk.path, "checkpoint", OFFSETS)
    disk.fill()
    for round_ in range(3):
        offsets = {partition: at + round_ for partition, at in OFFSETS.items()}
        with pytest.raises(NoSpaceLeft):
            write_offsets(disk.path, "checkpoint", offsets)
        reserved.free()
        write_offsets(disk.path, "checkpoint", offsets)
        reserved.reserve()
        assert read_offsets(disk.path, "checkpoint") == offsets


def test_disk_that_is_full_already_gives_no_room_and_harms_nothing(disk: SmallDisk) -> None:
    disk.fill()
    reserved = ReservedSpace(disk.path)
    reserved.reserve()
    reserved.free()
    disk.free()
    reserved.reserve()
    assert disk.path.joinpath(".kafkad-reserved").stat().st_blocks * 512 >= SIZE


def test_folder_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    reserved = ReservedSpace(tmp_path / "gone")
    reserved.reserve()
    reserved.free()
    with pytest.raises(OSError) as missing:
        os.stat(tmp_path / "gone")
    assert missing.value.errno == errno.ENOENT
