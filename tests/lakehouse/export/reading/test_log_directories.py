"""Where a topic begins and ends, when only its log directory can be asked."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pytest

from kafkad.adapters.files.atomic_write import write_whole
from kafkad.core.log.producers.entry import ProducerEntry
from kafkad.core.log.producers.snapshot import encode_snapshot
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    format_offsets,
    format_partition_metadata,
)
from kafkad.core.types import TopicPartition
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import Bounds
from kafkad_lakehouse.export.reading.log_directories import facts_without_broker, first_open_offset
from tests.lakehouse.export.reading.test_decoding import marker, written

ID = UUID(int=9)


def plain(offset: int) -> bytes:
    return build_batch([NewRecord(1, None, b"v")], base_offset=offset)


def partition(folder: Path, name: str, *batches: bytes, base: int = 0) -> Path:
    directory = folder / name
    directory.mkdir(parents=True)
    (directory / f"{base:020d}.log").write_bytes(b"".join(batches))
    (directory / "partition.metadata").write_text(format_partition_metadata(ID))
    (folder / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    return directory


def checkpoint(folder: Path, name: str, **offsets: int) -> None:
    rows = {TopicPartition("t", int(key[1:])): offset for key, offset in offsets.items()}
    # As the broker writes it: an export that runs never reads half of it.
    write_whole(str(folder / name), format_offsets(rows).encode())


def snapshot(directory: Path, offset: int, **begun: int) -> None:
    entries = [ProducerEntry(int(key[1:]), 0, current_txn_first_offset=first) for key, first in begun.items()]
    (directory / f"{offset:020d}.snapshot").write_bytes(encode_snapshot(entries))


def test_a_topic_ends_at_the_high_watermark_of_the_checkpoint(tmp_path: Path) -> None:
    partition(tmp_path, "t-0", *map(plain, range(9)))
    partition(tmp_path, "t-1", *map(plain, range(5, 9)), base=5)
    partition(tmp_path, "t-2", *map(plain, range(3)))
    partition(tmp_path, "t-x-0", plain(0))
    partition(tmp_path, "t-3.0123456789abcdef0123456789abcdef-delete", plain(0))
    checkpoint(tmp_path, HIGH_WATERMARKS, p0=7, p1=9)
    checkpoint(tmp_path, LOG_START_OFFSETS, p0=2)
    facts = facts_without_broker([str(tmp_path)], "t", is_committed=True)
    assert (facts.cluster_id, facts.topic_id) == ("c", ID)
    # Of a partition without a checkpoint nothing is known to be committed.
    assert facts.bounds == {0: Bounds(2, 7), 1: Bounds(5, 9), 2: Bounds(0, 0)}


def test_committed_records_end_before_the_first_open_transaction(tmp_path: Path) -> None:
    log = (plain(0), written(1, 7), written(2, 8), marker(3, 7), written(4, 7), plain(5), marker(6, 8))
    directory = str(partition(tmp_path, "t-0", *log))
    assert first_open_offset(directory, 7) == 4
    # Its marker is beyond the high watermark: it may not stay.
    assert first_open_offset(directory, 6) == 2
    assert first_open_offset(directory, 1) == 1
    checkpoint(tmp_path, HIGH_WATERMARKS, p0=7)
    assert facts_without_broker([str(tmp_path)], "t", is_committed=True).bounds == {0: Bounds(0, 4)}
    assert facts_without_broker([str(tmp_path)], "t", is_committed=False).bounds == {0: Bounds(0, 7)}


def test_transactions_that_are_open_in_the_snapshot_are_open(tmp_path: Path) -> None:
    directory = partition(tmp_path, "t-0", plain(20), marker(21, 8), plain(22), base=20)
    snapshot(directory, 20, p7=11, p8=13)
    snapshot(directory, 30, p9=1)
    assert first_open_offset(str(directory), 23) == 11
    (directory / f"{22:020d}.snapshot").write_bytes(b"torn")
    assert first_open_offset(str(directory), 23) == 11


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / HIGH_WATERMARKS).write_text("0\n2\nt 0 1\n"), "expected 2 entries, found 1"),
        (lambda folder: (folder / "meta.properties").unlink(), "has a meta.properties with the id of its cluster"),
        (lambda folder: (folder / "t-0" / "partition.metadata").write_text("?"), "expected 'version: 0'"),
        (lambda folder: partition(folder, "u-0").rename(folder / "t-0x"), None),
    ],
)
def test_a_folder_that_can_not_be_understood_is_one_sentence(tmp_path: Path, damage: object, said: str | None) -> None:
    partition(tmp_path, "t-0", plain(0))
    assert callable(damage)
    damage(tmp_path)
    if said is None:
        assert facts_without_broker([str(tmp_path)], "t", is_committed=True).bounds == {0: Bounds(0, 0)}
        return
    with pytest.raises(ExportFailed, match=said):
        facts_without_broker([str(tmp_path)], "t", is_committed=True)


def test_a_topic_of_which_nothing_is_here(tmp_path: Path) -> None:
    partition(tmp_path, "t-0", plain(0))
    with pytest.raises(ExportFailed, match="no partition of topic 'other'"):
        facts_without_broker([str(tmp_path)], "other", is_committed=True)
    with pytest.raises(ExportFailed, match="is not a directory"):
        facts_without_broker([str(tmp_path / "nowhere")], "t", is_committed=True)


@pytest.fixture
def nobody() -> Iterator[None]:
    """This process is a user without rights, until the end of the test."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(65_534, 65_534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.parametrize("closed", ["above", "itself"])
def test_a_folder_that_may_not_be_read_is_one_sentence(closed: str, nobody: None) -> None:
    with TemporaryDirectory() as above:
        folder = Path(above, "data")
        folder.mkdir()
        shut = Path(above) if closed == "above" else folder
        shut.chmod(0)
        try:
            with pytest.raises(ExportFailed, match=f"{folder} can't be read: join the broker's group"):
                facts_without_broker([str(folder)], "t", is_committed=True)
        finally:
            shut.chmod(0o700)
