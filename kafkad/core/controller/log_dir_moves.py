"""AlterReplicaLogDirs: moves partitions to other log directories (ReplicaManager.alterReplicaLogDirs).

The checks and their order are Apache Kafka's. A replica that does not exist yet gets an error, and will be created in
the requested directory.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from kafkad.core.controller.image import NO_LOG_DIR, NO_SLOT, MetadataImage, Partition
from kafkad.core.errors import ErrorCode
from kafkad.core.log.segments.layout import can_be_moved
from kafkad.core.types import TopicPartition


class HostedReplicas(Protocol):
    """The replicas of this broker and their log directories: the controller of a single broker, or `Hosting`."""

    image: MetadataImage

    @property
    def cordoned_dirs(self) -> frozenset[int]: ...

    def prefer_log_dir(self, partition: TopicPartition, log_dir: int, /) -> None: ...

    def move_partitions(self, targets: Mapping[TopicPartition, int]) -> None: ...


def alter_replica_log_dirs(
    replicas: HostedReplicas,
    requested: Iterable[tuple[TopicPartition, str]],
    log_dirs: Sequence[str],
    offline: Collection[int],
) -> dict[TopicPartition, ErrorCode]:
    """The error code of each partition. If a partition is named several times, its last directory counts."""
    numbers = {path: at for at, path in enumerate(log_dirs)}
    codes: dict[TopicPartition, ErrorCode] = {}
    moving: dict[TopicPartition, int] = {}
    for at, path in dict(requested).items():
        codes[at] = _check(replicas, at, numbers.get(path), offline)
        if codes[at] is ErrorCode.NONE:
            moving[at] = numbers[path]
    replicas.move_partitions(moving)
    return codes


def _check(replicas: HostedReplicas, at: TopicPartition, target: int | None, offline: Collection[int]) -> ErrorCode:
    if not can_be_moved(at):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if target in offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if target in replicas.cordoned_dirs:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    row = _row(replicas, at)
    if row is None:
        replicas.prefer_log_dir(at, target)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if row.slot == NO_SLOT:
        replicas.prefer_log_dir(at, target)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if row.log_dir == NO_LOG_DIR:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if offline and target not in (row.log_dir, row.future_dir):
        # The offline directory may have a copy of the partition.
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _row(replicas: HostedReplicas, at: TopicPartition) -> Partition | None:
    topic = replicas.image.topics.get(at.topic)
    if topic is None or not 0 <= at.partition < len(topic.partitions):
        return None
    return topic.partitions[at.partition]
