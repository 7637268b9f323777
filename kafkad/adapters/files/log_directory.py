"""One log directory: which broker owns it, was it closed cleanly, which partitions are in it?

`.lock` is held twice: `flock` on a descriptor that all writers inherit, so that a new broker waits for the last
orphaned process; and a POSIX record lock, which Java's file locks respect. Anything that keeps a directory from
being used is a `LogDirectoryUnusable` with one line that says why.
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
"""Kafka reserves directory ids 0 to 99; a random UUID never is one of them in practice."""
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


class LogDirectoryUnusable(Exception):
    """Why this directory can't be used; the message is one line for the person who starts the broker."""


class LogDirectoryOffline(LogDirectoryUnusable):
    """The disk fails. A broker with other log directories goes on with those (KIP-112)."""


class LogDirectoryForbidden(LogDirectoryOffline):
    """The user or the service may not write there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of `meta.properties`. Version 0 (ZooKeeper mode) has no directory id."""

    version: int = 1
    cluster_id: str | None
    node_id: int | None
    directory_id: UUID | None


class LogDirectory:
    """An existing, writable and locked log directory. `close` releases the locks; the file stays."""

    def __init__(self, path: Path, *, is_online: bool = True) -> None:
        self.path = path
        self.was_clean = True
        """The directory was closed cleanly, or is empty."""
        self._lock = -1
        if is_online:
            self._open()

    def _open(self) -> None:
        _make_usable(self.path)
        # Children inherit this descriptor: the lock lasts until the last of them is gone.
        self._lock = lock(self.path)
        try:
            self.was_clean = self.take_clean_shutdown() or next(iter(self.partitions()), None) is None
        except StorageFailed as error:
            self.close()
            raise LogDirectoryOffline(str(error)) from error

    @classmethod
    def offline(cls, path: Path) -> Self:
        """Stands in for a directory of log.dirs that can't be used, so that the others keep their indexes."""
        return cls(path, is_online=False)

    @property
    def is_online(self) -> bool:
        return self._lock >= 0

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)

    def claim(self, *, cluster_id: str, node_id: int, new_directory_id: UUID) -> MetaProperties:
        """Check `meta.properties` against this broker, and write it where it is missing or says less.

        Version 0 stays what it is: Apache Kafka in ZooKeeper mode refuses any other.
        """
        found = read_meta_properties(self.path)
        but = (
            f"this broker to {cluster_id}: "
            f"use another log.dirs, or remove {META_PROPERTIES} if the data may be taken over"
        )
        _refuse_foreign(self.path, found, cluster_id, node_id, but)
        assert new_directory_id not in _RESERVED_IDS, "a directory id is drawn at random"
        directory_id = found.directory_id if found and found.directory_id else new_directory_id
        if found is not None and found.version == 0:
            mine = MetaProperties(version=0, cluster_id=cluster_id, node_id=node_id, directory_id=None)
        else:
            mine = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
        if found != mine:
            write_in_log_directory(str(self.path / META_PROPERTIES), _format_meta_properties(mine).encode())
        return mine

    def claim_in_cluster(self, *, cluster_id: str, node_id: int) -> None:
        """The same in a cluster on ZooKeeper, where version 0 is the only one."""
        found = read_meta_properties(self.path)
        if found is not None and found.version != 0:
            raise LogDirectoryUnusable(
                f"{self.path} belongs to a broker without ZooKeeper: use another log.dirs, or remove zookeeper.connect"
            )
        but = (
            f"and ZooKeeper to {cluster_id}, which would use nothing of it: "
            "zookeeper.connect may be wrong, or ZooKeeper has lost its data"
        )
        _refuse_foreign(self.path, found, cluster_id, node_id, but)
        mine = MetaProperties(version=0, cluster_id=cluster_id, node_id=node_id, directory_id=None)
        if found != mine:
            write_in_log_directory(str(self.path / META_PROPERTIES), _format_meta_properties(mine).encode())

    def take_clean_shutdown(self) -> bool:
        """Whether the last stop was clean. The marker goes *before* anything is loaded (KAFKA-10471)."""
        marker = self.path / CLEAN_SHUTDOWN
        with storage_errors(str(marker)):
            if not marker.exists():
                return False
            marker.unlink()
        # Synced: a marker that came back after a power loss would keep logs from being checked.
        sync_directory(str(self.path))
        return True

    def mark_clean_shutdown(self, broker_epoch: int = -1) -> None:
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_in_log_directory(str(self.path / CLEAN_SHUTDOWN), content.encode())

    def partitions(self) -> Iterator[tuple[str, DirectoryName]]:
        """Every partition directory with its parsed name; other directories are ignored."""
        with storage_errors(str(self.path)), os.scandir(self.path) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
        for name in names:
            parsed = parse_directory_name(name)
            if parsed is not None:
                yield name, parsed

    def mark_leaving(self, partition: TopicPartition, unique_id: str, state: str) -> Path:
        """Rename a partition's directory so that it is deleted (or ignored: stray) even after a crash."""
        target = self.path / marked_directory_name(partition, unique_id, state)
        with storage_errors(str(target)):
            (self.path / directory_name(partition)).rename(target)
        return target


def write_partition_metadata(directory: Path | str, topic_id: UUID) -> None:
    """Whole, or not at all if the process dies: Apache Kafka takes the log directory of an empty one offline.

    It is on disk from the first sync of the partition's names on (`SegmentFiles`). Raises `StorageFailed` and
    `NoSpaceLeft`.
    """
    write_whole(f"{directory}/{PARTITION_METADATA}", format_partition_metadata(topic_id).encode())


def read_meta_properties(path: Path) -> MetaProperties | None:
    """Versions 0 (`broker.id`) and 1 (`node.id`, `directory.id`); None when the directory is new."""
    try:
        with storage_errors(str(path)):
            text = (path / META_PROPERTIES).read_text(errors="replace")
    except FileNotFoundError:
        return None
    lines = (line.partition("=") for line in text.splitlines() if not line.lstrip().startswith("#"))
    fields = {key.strip(): value.strip() for key, equals, value in lines if equals}
    # Without a version it is 0, as in Apache Kafka.
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
    assert meta.directory_id is not None, "version 1 always names the directory"
    directory_id = base64.urlsafe_b64encode(meta.directory_id.bytes).decode().rstrip("=")
    return f"version=1\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\ndirectory.id={directory_id}\n"


def _parse_uuid(text: str) -> UUID:
    return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))


def _refuse_foreign(path: Path, found: MetaProperties | None, cluster_id: str, node_id: int, but: str) -> None:
    """`but` is said after the name of another cluster."""
    if found is None:
        return
    if found.cluster_id not in (None, cluster_id):
        raise LogDirectoryUnusable(f"{path} belongs to cluster {found.cluster_id}, {but}")
    if found.node_id not in (None, node_id):
        raise LogDirectoryUnusable(
            f"{path} belongs to broker {found.node_id}, but broker.id is {node_id}: "
            f"set broker.id={found.node_id} or use another log.dirs"
        )


def _make_usable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as in_the_way:
        raise LogDirectoryOffline(f"{path} is not a directory") from in_the_way
    except OSError as error:
        kind = LogDirectoryForbidden if error.errno in _FORBIDDEN else LogDirectoryOffline
        raise kind(f"{path} can't be created: {error.strerror}") from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise LogDirectoryForbidden(f"{path} can't be read and written by this user")


def lock(path: Path) -> int:
    """A descriptor that holds the directory. Raises `LogDirectoryUnusable`, with the one who has it."""
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
    """Which process has the lock: from the kernel for record locks, from /proc/locks for flock."""
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
