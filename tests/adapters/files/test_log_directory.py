"""Whose log directory is it, who uses it, and how did its last user stop?"""

import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from kafkad.adapters.files.checkpoint_files import read_offsets, write_offsets
from kafkad.adapters.files.log_directory import (
    LogDirectory,
    LogDirectoryUnusable,
    MetaProperties,
    read_meta_properties,
    write_partition_metadata,
)
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS, CheckpointCorrupt, parse_partition_metadata
from kafkad.core.types import TopicPartition

PARTITION = TopicPartition("orders", 3)


def test_a_missing_directory_is_created(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / ".lock").exists()
    directory.close()


@pytest.mark.parametrize("holder", ["flock", "lockf"])
def test_a_directory_that_another_process_uses_is_named_with_its_holder(tmp_path: Path, holder: str) -> None:
    """Either lock keeps us out: `flock` is ours, the record lock is the one that Java takes."""
    script = (
        f"import fcntl, sys; f = open({str(tmp_path / '.lock')!r}, 'w'); fcntl.{holder}(f, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LogDirectoryUnusable, match=f"already locked by pid {other.pid}"):
            LogDirectory(tmp_path)
        assert other.stdin is not None
        other.stdin.close()
        other.wait()
    LogDirectory(tmp_path).close()


def test_the_lock_file_of_a_stopped_broker_means_nothing(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    LogDirectory(tmp_path).close()
    LogDirectory(tmp_path).close()


def test_what_is_not_a_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LogDirectoryUnusable) as refused:
            LogDirectory(path)
        assert "\n" not in str(refused.value)


def test_a_new_directory_is_claimed_for_cluster_and_broker(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    directory_id = UUID("c1f0c0c4-52d1-4c0e-9a3f-bf0b8c8e7a11")
    directory.claim(cluster_id="abc", node_id=7, new_directory_id=directory_id)
    text = (tmp_path / "meta.properties").read_text()
    assert text == "version=1\ncluster.id=abc\nnode.id=7\ndirectory.id=wfDAxFLRTA6aP78LjI56EQ\n"
    again = directory.claim(cluster_id="abc", node_id=7, new_directory_id=uuid4())
    assert again == MetaProperties(cluster_id="abc", node_id=7, directory_id=directory_id)
    directory.close()


def test_version_0_of_a_zookeeper_broker_stays_as_it_refuses_any_other(tmp_path: Path) -> None:
    written = "#\n#Tue Jan 02\ncluster.id=abc\nversion=0\nbroker.id=7\n"
    (tmp_path / "meta.properties").write_text(written)
    meta = MetaProperties(version=0, cluster_id="abc", node_id=7, directory_id=None)
    assert read_meta_properties(tmp_path) == meta
    directory = LogDirectory(tmp_path)
    assert directory.claim(cluster_id="abc", node_id=7, new_directory_id=uuid4()) == meta
    assert (tmp_path / "meta.properties").read_text() == written
    (tmp_path / "meta.properties").write_text("broker.id=7\n")
    assert directory.claim(cluster_id="abc", node_id=7, new_directory_id=uuid4()) == meta
    assert read_meta_properties(tmp_path) == meta
    directory.close()


def test_meta_properties_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"\xff\xfe\x00version")
    with pytest.raises(LogDirectoryUnusable, match="expected version 0 or 1"):
        read_meta_properties(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("version=1\ncluster.id=other\nnode.id=7\n", "belongs to cluster other"),
        ("version=1\ncluster.id=abc\nnode.id=8\n", "belongs to broker 8, but broker.id is 7: set broker.id=8 or"),
        ("version=0\ncluster.id=abc\nbroker.id=8\n", "belongs to broker 8"),
        ("version=9\n", "expected version 0 or 1"),
        ("version=1\nnode.id=seven\n", "seven"),
        ("garbage", "expected version 0 or 1"),
    ],
)
def test_a_foreign_directory_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "meta.properties").write_text(content)
    directory = LogDirectory(tmp_path)
    with pytest.raises(LogDirectoryUnusable, match=message):
        directory.claim(cluster_id="abc", node_id=7, new_directory_id=uuid4())
    assert (tmp_path / "meta.properties").read_text() == content
    directory.close()


def test_the_mark_of_a_clean_stop_counts_once(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    assert not directory.take_clean_shutdown()
    directory.mark_clean_shutdown()
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert directory.take_clean_shutdown()
    assert not directory.take_clean_shutdown()
    directory.close()


def test_partitions_are_found_and_marked(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    topic_id = uuid4()
    path = tmp_path / "orders-3"
    path.mkdir()
    write_partition_metadata(path, topic_id)
    assert parse_partition_metadata((path / "partition.metadata").read_text()) == topic_id
    (tmp_path / "lost+found").mkdir()
    assert [(name, found.partition, found.state) for name, found in directory.partitions()] == [
        ("orders-3", PARTITION, "")
    ]
    leaving = directory.mark_leaving(PARTITION, "0123", "delete")
    assert leaving.name == "orders-3.0123-delete"
    assert [found.state for _, found in directory.partitions()] == ["delete"]
    directory.close()


def test_offset_checkpoints_are_replaced_whole(tmp_path: Path) -> None:
    assert read_offsets(tmp_path, HIGH_WATERMARKS) == {}
    write_offsets(tmp_path, HIGH_WATERMARKS, {PARTITION: 5})
    write_offsets(tmp_path, HIGH_WATERMARKS, {PARTITION: 6})
    assert read_offsets(tmp_path, HIGH_WATERMARKS) == {PARTITION: 6}
    assert os.listdir(tmp_path) == [HIGH_WATERMARKS]
    (tmp_path / HIGH_WATERMARKS).write_bytes(b"\xff\x00")
    with pytest.raises(CheckpointCorrupt):
        read_offsets(tmp_path, HIGH_WATERMARKS)


def test_marker_of_a_clean_stop_is_gone_for_good_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss would bring it back, and no log would be checked."""
    directory = LogDirectory(tmp_path)
    directory.mark_clean_shutdown()
    synced: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.listdir(fd)))
    assert directory.take_clean_shutdown()
    assert [".kafka_cleanshutdown" in names for names in synced] == [False]
    directory.close()
