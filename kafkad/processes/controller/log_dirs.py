"""The log directories at the controller's start: their owner and the partitions in them.

Ten thousand partition directories must be read in a fraction of a second, so each is read once: its topic id always,
its leader epochs only if the store does not have the partition.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID, uuid4

from kafkad.adapters.files.atomic_write import sync_directory
from kafkad.adapters.files.log_directory import (
    META_PROPERTIES,
    LogDirectory,
    LogDirectoryUnusable,
    read_meta_properties,
)
from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.core.controller.startup.reconciliation import FoundDirectory, future_of, parse_directory
from kafkad.core.log.epochs import CorruptCheckpoint, LeaderEpochCache
from kafkad.core.log.recovery.checkpoints import CheckpointCorrupt, parse_partition_metadata
from kafkad.core.log.segments.layout import LEADER_EPOCHS, PARTITION_METADATA
from kafkad.core.ports import StorageFailed

log = logging.getLogger(__name__)

_SMALL_FILE = 1 << 16

IsKnown = Callable[[str, int], bool]


def unreadable(directories: Iterable[tuple[int, LogDirectory]]) -> set[int]:
    """The directories that were removed, or whose `meta.properties` can't be read. Raises `LogDirectoryUnusable` for an
    invalid file.
    """
    found = set()
    for at, directory in directories:
        try:
            read_meta_properties(directory.path)
        except StorageFailed as error:
            log.error("log directory %s can't be read and is offline: %s", directory.path, error)
            found.add(at)
            continue
        if not directory.path.is_dir():
            log.error("log directory %s was removed and is offline", directory.path)
            found.add(at)
    return found


def sync_names(directories: Sequence[LogDirectory], offline: Collection[int]) -> dict[int, str]:
    """Sync the directories, so that renames and removals are on disk. Returns the failed ones, with the cause."""
    failed = {}
    for at, directory in enumerate(directories):
        if at not in offline:
            try:
                sync_directory(str(directory.path))
            except (StorageFailed, FileNotFoundError) as error:
                failed[at] = str(error)
    return failed


def proposed_cluster_id(paths: Sequence[Path]) -> str | None:
    """The cluster id in the directories. Raises `LogDirectoryUnusable` if they have different ones, or a file can't be
    read.
    """
    ids: dict[str, Path] = {}
    for path in paths:
        try:
            found = read_meta_properties(path)
        except StorageFailed as failure:
            raise LogDirectoryUnusable(f"{META_PROPERTIES} can't be read: {failure}") from failure
        if found is not None and found.cluster_id is not None:
            ids.setdefault(found.cluster_id, path)
    if len(ids) > 1:
        listed = ", ".join(f"{path}: {cluster_id}" for cluster_id, path in ids.items())
        raise LogDirectoryUnusable(f"log.dirs belong to different clusters ({listed}): use those of one cluster")
    return next(iter(ids), None)


def claim_all(directories: Sequence[LogDirectory], cluster_id: str, node_id: int) -> None:
    """Write or check each `meta.properties`. Raises `LogDirectoryUnusable`, also if two have the same directory id, as
    in Apache Kafka.
    """
    paths: dict[UUID, Path] = {}
    for directory in directories:
        found = read_meta_properties(directory.path)
        if found is not None and found.directory_id is not None:
            first = paths.setdefault(found.directory_id, directory.path)
            if first != directory.path:
                raise LogDirectoryUnusable(
                    f"{first} and {directory.path} have the same directory.id, as one is a copy of the other: "
                    f"use one of them, or remove {META_PROPERTIES} of one if both belong to this broker"
                )
    for directory in directories:
        directory.claim(cluster_id=cluster_id, node_id=node_id, new_directory_id=uuid4())


def partition_counts(partitions: Mapping[str, int]) -> IsKnown:
    """Whether the store has a partition, by the number of partitions of each topic."""
    return lambda topic, partition: partition < partitions.get(topic, 0)


def scan(log_dir: int, path: Path, is_known: IsKnown) -> Iterator[FoundDirectory]:
    """Every directory that may belong to a partition. Raises `StorageFailed`."""
    with storage_errors(str(path)), os.scandir(path) as entries:
        # Symbolic links too, as in Apache Kafka: an administrator may have moved a partition to a larger disk.
        names = [entry.name for entry in entries if entry.is_dir()]
    for name in names:
        with storage_errors(f"{path}/{name}"):
            found = _found(log_dir, path, name, is_known)
        if found is not None:
            yield found


def _found(log_dir: int, path: Path, name: str, is_known: IsKnown) -> FoundDirectory | None:
    """None: a worker has renamed the directory meanwhile, at the end of a move."""
    directory, partition = f"{path}/{name}", parse_directory(name)
    topic_id = _topic_id(directory) if partition is not None or future_of(name) else None
    if topic_id is None and not os.path.isdir(directory):
        return None
    is_new = partition is not None and not is_known(partition.topic, partition.partition)
    epoch = _latest_epoch(directory) if is_new else -1
    return FoundDirectory(log_dir=log_dir, name=name, topic_id=topic_id, leader_epoch=epoch)


def _topic_id(directory: str) -> UUID | None:
    text = _read(f"{directory}/{PARTITION_METADATA}")
    if not text:
        return None
    try:
        return parse_partition_metadata(text)
    except CheckpointCorrupt as damage:
        log.warning(
            "%s/%s is damaged, the directory is taken for the topic of its name: %s",
            directory,
            PARTITION_METADATA,
            damage,
        )
        return None


def _latest_epoch(directory: str) -> int:
    text = _read(f"{directory}/{LEADER_EPOCHS}")
    try:
        latest = LeaderEpochCache.from_text(text).latest_epoch if text else None
    except CorruptCheckpoint:
        latest = None
    return -1 if latest is None else latest


def _read(path: str) -> str:
    """Plain system calls: a file object for each of ten thousand files would double the time."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    try:
        return os.read(descriptor, _SMALL_FILE).decode(errors="replace")
    finally:
        os.close(descriptor)
