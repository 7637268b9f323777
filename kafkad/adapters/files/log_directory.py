"""One log directory: its lock, its `meta.properties`, the clean-shutdown file, and the directories of partitions.

`.lock` is locked twice: with `flock` on a descriptor that all writers inherit, so that no broker can start before the
last orphaned process has ended; and with a POSIX record lock, which Java's file locks respect. `LogDirectoryUnusable`
has the reason why a directory can't be used.
"""

import base64
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import UUID

from kafkad.adapters.files.atomic_write import sync_directory, write_in_log_directory, write_whole
from kafkad.adapters.files.record_lock import holder_pid
from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.core.log.recovery.checkpoints import format_partition_metadata
from kafkad.core.log.segments.layout import (
    PARTITION_METADATA,
    DirectoryName,
    directory_name,
    marked_directory_name,
    parse_directory_name,
)
from kafkad.core.ports import StorageFailed
from kafkad.core.types import TopicPartition

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_RESERVED_IDS = (UUID(int=0), UUID(int=1))
"""Kafka reserves directory ids 0 to 99; the other reserved ids are too improbable to check."""
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


class LogDirectoryUnusable(Exception):
    """The directory can't be used; the message is one line with the reason, for the administrator."""


class LogDirectoryOffline(LogDirectoryUnusable):
    """The disk has failed. A broker with other log directories continues with those (KIP-112)."""


class LogDirectoryForbidden(LogDirectoryOffline):
    """The user or the service has no permission to write there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of `meta.properties`. Version 0 (ZooKeeper mode) has no directory id."""

    version: int = 1
    cluster_id: str | None
    node_id: int | None
    directory_id: UUID | None


class LogDirectory:
    """An existing, writable and locked log directory. `close` releases the locks; the lock file remains."""

    def __init__(self, path: Path, *, is_online: bool = True) -> None:
        self.path = path
        self.was_clean = True
        """Whether the directory was closed cleanly, or has no partitions."""
        self._lock = -1
        if is_online:
            self._open()

    def _open(self) -> None:
        _make_usable(self.path)
        # Children inherit this descriptor: the lock lasts until the last child has ended.
        self._lock = lock(self.path)
        try:
            self.was_clean = self.take_clean_shutdown() or next(iter(self.partitions()), None) is None
        except StorageFailed as error:
            self.close()
            raise LogDirectoryOffline(str(error)) from error

    @classmethod
    def offline(cls, path: Path) -> Self:
        """A placeholder for an unusable directory of log.dirs, so that the others keep their indexes."""
        return cls(path, is_online=False)

    @property
    def is_online(self) -> bool:
        return self._lock >= 0

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)

    def claim(self, *, cluster_id: str, node_id: int, new_directory_id: UUID) -> MetaProperties:
        """Check that `meta.properties` belongs to this broker, and write it if it is missing or incomplete.

        Version 0 is not upgraded, because Apache Kafka in ZooKeeper mode rejects other versions.
        """
        found = read_meta_properties(self.path)
        conflict = (
            f"this broker to {cluster_id}: "
            f"use another log.dirs, or remove {META_PROPERTIES} to use the data in this cluster"
        )
        _check_owner(self.path, found, cluster_id, node_id, conflict)
        assert new_directory_id not in _RESERVED_IDS, "directory ids are random"
        directory_id = found.directory_id if found and found.directory_id else new_directory_id
        if found is not None and found.version == 0:
            expected = MetaProperties(version=0, cluster_id=cluster_id, node_id=node_id, directory_id=None)
        else:
            expected = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
        if found != expected:
            write_in_log_directory(str(self.path / META_PROPERTIES), _format_meta_properties(expected).encode())
        return expected

    def claim_in_cluster(self, *, cluster_id: str, node_id: int) -> None:
        """As `claim`, in a cluster on ZooKeeper, which has version 0 only."""
        found = read_meta_properties(self.path)
        if found is not None and found.version != 0:
            raise LogDirectoryUnusable(
                f"{self.path} belongs to a broker without ZooKeeper: use another log.dirs, or remove zookeeper.connect"
            )
        conflict = (
            f"and ZooKeeper to {cluster_id}, so its data would not be used: "
            "check zookeeper.connect, and whether ZooKeeper has lost its data"
        )
        _check_owner(self.path, found, cluster_id, node_id, conflict)
        expected = MetaProperties(version=0, cluster_id=cluster_id, node_id=node_id, directory_id=None)
        if found != expected:
            write_in_log_directory(str(self.path / META_PROPERTIES), _format_meta_properties(expected).encode())

    def take_clean_shutdown(self) -> bool:
        """Whether the last stop was clean. Removes the marker *before* logs are loaded (KAFKA-10471)."""
        marker = self.path / CLEAN_SHUTDOWN
        with storage_errors(str(marker)):
            if not marker.exists():
                return False
            marker.unlink()
        # Synced: if the marker reappeared after a power failure, recovery would be skipped.
        sync_directory(str(self.path))
        return True

    def mark_clean_shutdown(self, broker_epoch: int = -1) -> None:
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_in_log_directory(str(self.path / CLEAN_SHUTDOWN), content.encode())

    def partitions(self) -> Iterator[tuple[str, DirectoryName]]:
        """The partition directories with their parsed names; other directories are ignored."""
        with storage_errors(str(self.path)), os.scandir(self.path) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
        for name in names:
            parsed = parse_directory_name(name)
            if parsed is not None:
                yield name, parsed

    def mark_leaving(self, partition: TopicPartition, unique_id: str, state: str) -> Path:
        """Rename a partition's directory, so that it is deleted (or ignored, if stray) also after a crash."""
        target = self.path / marked_directory_name(partition, unique_id, state)
        with storage_errors(str(target)):
            (self.path / directory_name(partition)).rename(target)
        return target


def write_partition_metadata(directory: Path | str, topic_id: UUID) -> None:
    """Write `partition.metadata`, without a partial state: for an empty file, Apache Kafka takes the directory offline.

    The first sync of the partition's directory also syncs this file (`SegmentFiles`). Raises `StorageFailed`,
    `NoSpaceLeft`.
    """
    write_whole(f"{directory}/{PARTITION_METADATA}", format_partition_metadata(topic_id).encode())


def read_meta_properties(path: Path) -> MetaProperties | None:
    """Versions 0 (`broker.id`) and 1 (`node.id`, `directory.id`); None for a new directory."""
    try:
        with storage_errors(str(path)):
            text = (path / META_PROPERTIES).read_text(errors="replace")
    except FileNotFoundError:
        return None
    lines = (line.partition("=") for line in text.splitlines() if not line.lstrip().startswith("#"))
    fields = {key.strip(): value.strip() for key, equals, value in lines if equals}
    # The default version is 0, as in Apache Kafka.
    version = fields.get("version", "0" if "broker.id" in fields else None)
    if version not in ("0", "1"):
        raise LogDirectoryUnusable(f"{path / META_PROPERTIES}: expected version 0 or 1, found {version!r}")
    node_id = fields.get("node.id" if version == "1" else "broker.id")
    try:
        directory_id = _parse_uuid(fields["directory.id"]) if "directory.id" in fields else None
        return MetaProperties(
            version=int(version),
            cluster_id=fields.get("cluster.id"),
            node_id=int(node_id) if node_id is not None else None,
            directory_id=directory_id,
        )
    except ValueError as error:
        raise LogDirectoryUnusable(f"{path / META_PROPERTIES}: {error}") from error


def _format_meta_properties(meta: MetaProperties) -> str:
    if meta.version == 0:
        return f"version=0\nbroker.id={meta.node_id}\ncluster.id={meta.cluster_id}\n"
    assert meta.directory_id is not None, "version 1 has a directory id"
    directory_id = base64.urlsafe_b64encode(meta.directory_id.bytes).decode().rstrip("=")
    return f"version=1\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\ndirectory.id={directory_id}\n"


def _parse_uuid(text: str) -> UUID:
    return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))


def _check_owner(path: Path, found: MetaProperties | None, cluster_id: str, node_id: int, conflict: str) -> None:
    """`conflict` is the text after the name of another cluster."""
    if found is None:
        return
    if found.cluster_id not in (None, cluster_id):
        raise LogDirectoryUnusable(f"{path} belongs to cluster {found.cluster_id}, {conflict}")
    if found.node_id not in (None, node_id):
        raise LogDirectoryUnusable(
            f"{path} belongs to broker {found.node_id}, but broker.id is {node_id}: "
            f"set broker.id={found.node_id} or use another log.dirs"
        )


def _make_usable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as not_a_directory:
        raise LogDirectoryOffline(f"{path} is not a directory") from not_a_directory
    except OSError as error:
        kind = LogDirectoryForbidden if error.errno in _FORBIDDEN else LogDirectoryOffline
        raise kind(f"{path} can't be created: {error.strerror}") from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise LogDirectoryForbidden(f"{path} is not readable and writable for this user")


def lock(path: Path) -> int:
    """A descriptor that locks the directory. Raises `LogDirectoryUnusable`, with the holder of the lock."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise LogDirectoryOffline(f"{path / LOCK} can't be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(descriptor, path)
        os.close(descriptor)
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise LogDirectoryOffline(f"{path / LOCK} can't be locked: {error.strerror}") from error
        raise LogDirectoryUnusable(f"{path} is already locked by {holder}") from error
    return descriptor


def _holder(descriptor: int, path: Path) -> str:
    """The process with the lock: from fcntl(2) for record locks, from /proc/locks for flock."""
    pid = holder_pid(descriptor)
    if pid is not None:
        return f"pid {pid}"
    inode = f":{(path / LOCK).stat().st_ino}"
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return "another process"
    for line in lines:
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(inode):
            return f"pid {fields[4]}"
    return "another process"
