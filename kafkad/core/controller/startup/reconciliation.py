"""Compares the log directories with the store: finds the partitions, and decides about all other directories.

No data is lost silently: a directory of a topic that is not in the store is adopted, a directory of an earlier topic of
the same name is renamed to `…-stray`, and only directories of recorded deletions are deleted. A directory name alone
does not create thousands of partitions: `orders-99999999` is renamed to `…-stray` too.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kafkad.core.controller.topics.names import CLUSTER_METADATA_TOPIC, is_legal
from kafkad.core.controller.topics.topics import MAX_PARTITIONS_PER_REQUEST
from kafkad.core.log.segments.layout import future_directory_name
from kafkad.core.types import LARGEST_PARTITION, TopicPartition

# <topic>-<partition>.<unique>-delete: Kafka and kafkad rename directories so before they delete them.
_RENAMED_FOR_DELETION = re.compile(r"\S+-\S+\.\S+-delete")
# Apache Kafka renames directories of unknown partitions so.
_SET_ASIDE = re.compile(r"\S+-\S+\.\S+-stray")
# The target directory of a move.
_FUTURE = re.compile(r"(\S+-\S+)\.\S+-future")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX_MISSING = MAX_PARTITIONS_PER_REQUEST
"""A topic may have this many partitions more than in the store or in the other directories."""


class UnusableMetadata(Exception):
    """The broker must not start with these log directories, or in this cluster; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDirectory:
    """A partition directory; `topic_id` from partition.metadata, `leader_epoch` the latest of its checkpoint."""

    log_dir: int
    name: str
    topic_id: UUID | None = None
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ReconciledTopic:
    """A topic of the store; `local` are the partitions with a replica on this broker."""

    id: UUID
    partitions: int
    local: frozenset[int]

    @classmethod
    def of(cls, id: UUID, assignments: Sequence[Sequence[int]], broker_id: int) -> "ReconciledTopic":
        local = frozenset(index for index, replicas in enumerate(assignments) if broker_id in replicas)
        return cls(id, len(assignments), local)


@dataclass(frozen=True, slots=True)
class StrayDirectory:
    """A directory with another topic id than the topic of its name, or with an impossible partition number. The shell
    renames it to `…-stray` and logs a warning."""

    directory: FoundDirectory
    expected_id: UUID | None


@dataclass(frozen=True, slots=True)
class AdoptedTopic:
    """A topic found only on disk. `topic_id` None: the directories have no id, and the topic gets a new one."""

    name: str
    topic_id: UUID | None
    partitions: int


@dataclass(slots=True, kw_only=True)
class Reconciliation:
    located: dict[TopicPartition, int] = field(default_factory=dict)
    """The log directory of each partition found."""
    leader_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """The latest leader epoch on disk of each partition found, -1 for none."""
    missing: list[TopicPartition] = field(default_factory=list)
    """In the store, but in no online directory: a new partition, or one in an offline directory."""
    adopted: list[AdoptedTopic] = field(default_factory=list)
    deleting: list[tuple[FoundDirectory, str, int]] = field(default_factory=list)
    """The directories of recorded deletions, with topic and partition."""
    leftovers: list[FoundDirectory] = field(default_factory=list)
    """Directories to remove: already renamed for deletion, or of abandoned moves."""
    moving: dict[TopicPartition, int] = field(default_factory=dict)
    """The target directory of each move that an earlier start began."""
    set_aside: list[FoundDirectory] = field(default_factory=list)
    """Renamed by an earlier start or by Apache Kafka: they are not served, and stay as they are."""
    stray: list[StrayDirectory] = field(default_factory=list)
    duplicates: list[tuple[TopicPartition, int, int]] = field(default_factory=list)
    """One partition in two directories: the broker does not start until an operator removes one."""

    def check_duplicates(self) -> None:
        """Raises `UnusableMetadata` if a partition is in two log directories."""
        if self.duplicates:
            text = ", ".join(f"{partition} in log.dirs[{a}] and [{b}]" for partition, a, b in self.duplicates)
            raise UnusableMetadata(f"partitions found in two log directories: {text}; move one of each away")


def parse_directory(name: str) -> TopicPartition | None:
    """The partition of a directory `<topic>-<partition>`, or None for any other name."""
    topic, _, number = name.rpartition("-")
    if not (_PARTITION.fullmatch(number) and is_legal(topic)):
        return None
    partition = int(number)
    return TopicPartition(topic, partition) if partition <= LARGEST_PARTITION else None


def reconcile(
    stored: Mapping[str, ReconciledTopic],
    deletions: Mapping[str, UUID | None],
    directories: Iterable[FoundDirectory],
) -> Reconciliation:
    """`deletions`: topics whose deletion is recorded and their ids (None: recorded by a broker that keeps no id)."""
    result = Reconciliation()
    unknown: dict[str, list[tuple[int, FoundDirectory]]] = {}
    futures: list[FoundDirectory] = []
    for directory in sorted(directories, key=lambda found: (found.log_dir, found.name)):
        if _RENAMED_FOR_DELETION.fullmatch(directory.name):
            result.leftovers.append(directory)
            continue
        if _FUTURE.fullmatch(directory.name):
            futures.append(directory)
            continue
        if _SET_ASIDE.fullmatch(directory.name):
            result.set_aside.append(directory)
            continue
        partition = parse_directory(directory.name)
        if partition is None or partition.topic == CLUSTER_METADATA_TOPIC:
            continue
        if _is_being_deleted(partition.topic, directory, stored, deletions):
            result.deleting.append((directory, partition.topic, partition.partition))
            continue
        topic = stored.get(partition.topic)
        if topic is None and partition.topic in deletions:
            # Neither the deleted topic nor one of the store: stray, so that the topic name can be used again.
            result.stray.append(StrayDirectory(directory, deletions[partition.topic]))
        elif topic is None:
            unknown.setdefault(partition.topic, []).append((partition.partition, directory))
        elif directory.topic_id not in (None, topic.id) or partition.partition >= topic.partitions + _MAX_MISSING:
            result.stray.append(StrayDirectory(directory, topic.id))
        else:
            _locate(result, partition, directory)
    for name in sorted(unknown):
        _adopt(result, name, unknown[name])
    for directory in futures:
        _continue_moving(result, directory, stored, deletions)
    _find_missing(result, stored)
    return result


def future_of(name: str) -> TopicPartition | None:
    """The partition of a future directory's name."""
    match = _FUTURE.fullmatch(name)
    return parse_directory(match[1]) if match else None


def _continue_moving(
    result: Reconciliation,
    directory: FoundDirectory,
    stored: Mapping[str, ReconciledTopic],
    deletions: Mapping[str, UUID | None],
) -> None:
    """The owner copies the partition again, into the directory with the expected name; others are removed."""
    partition = future_of(directory.name)
    if partition is None:
        result.set_aside.append(directory)
        return
    if _is_being_deleted(partition.topic, directory, stored, deletions):
        result.leftovers.append(directory)
        return
    topic = stored.get(partition.topic)
    is_of_topic = topic is None or directory.topic_id in (None, topic.id)
    if partition not in result.located or not is_of_topic:
        result.set_aside.append(directory)
        return
    if result.located[partition] != directory.log_dir:
        # Others are of cancelled moves whose directories could not be removed.
        is_first = result.moving.setdefault(partition, directory.log_dir) == directory.log_dir
        topic_id = topic.id if topic is not None else directory.topic_id
        if is_first and topic_id is not None and directory.name == future_directory_name(partition, topic_id.hex):
            return
    result.leftovers.append(directory)


def _is_being_deleted(
    topic: str,
    directory: FoundDirectory,
    stored: Mapping[str, ReconciledTopic],
    deletions: Mapping[str, UUID | None],
) -> bool:
    if topic not in deletions or topic in stored:
        return False
    deleted_id = deletions[topic]
    # If neither has an id, only the name can be compared.
    return deleted_id is None or directory.topic_id in (None, deleted_id)


def _locate(result: Reconciliation, partition: TopicPartition, directory: FoundDirectory) -> None:
    first = result.located.setdefault(partition, directory.log_dir)
    result.leader_epochs[partition] = directory.leader_epoch
    if first != directory.log_dir:
        result.duplicates.append((partition, first, directory.log_dir))


def _adopt(result: Reconciliation, name: str, found: Sequence[tuple[int, FoundDirectory]]) -> None:
    topic_id = next((directory.topic_id for _, directory in found if directory.topic_id), None)
    partitions = 0
    for partition, directory in found:
        is_another = topic_id is not None and directory.topic_id not in (None, topic_id)
        if is_another or partition >= len(found) + _MAX_MISSING:
            result.stray.append(StrayDirectory(directory, topic_id))
            continue
        _locate(result, TopicPartition(name, partition), directory)
        partitions = max(partitions, partition + 1)
    if partitions:
        result.adopted.append(AdoptedTopic(name, topic_id, partitions))


def _find_missing(result: Reconciliation, stored: Mapping[str, ReconciledTopic]) -> None:
    for name, topic in stored.items():
        for index in sorted(topic.local):
            partition = TopicPartition(name, index)
            if partition not in result.located:
                result.missing.append(partition)
