"""The partition rows of the metadata: made from stored state and place, changed when log directories change."""

from collections.abc import Mapping
from uuid import UUID

from msgspec import structs

from kafkad.core.controller import deltas
from kafkad.core.controller.image import NO_LOG_DIR, MetadataImage, Partition
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.topics.assignment import Assignment, ReplicaAssignment
from kafkad.core.controller.topics.placement import Place
from kafkad.core.types import TopicPartition


def make_partition(
    index: int, place: Place, replicas: Assignment, state: PartitionState, future_dir: int = NO_LOG_DIR
) -> Partition:
    return Partition(
        index=index,
        slot=place.slot,
        owner=place.owner,
        log_dir=place.log_dir,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        replicas=replicas,
        isr=state.isr,
        leader_recovery_state=state.leader_recovery_state,
        future_dir=future_dir,
    )


def assignment_of(partition: Partition) -> ReplicaAssignment:
    return ReplicaAssignment(partition.replicas, partition.adding, partition.removing)


def replication_factor(partition: Partition) -> int:
    """Without the replicas that a reassignment adds (KIP-352): they are not missing yet."""
    return len(partition.replicas) - len(partition.adding)


def state_of(partition: Partition) -> PartitionState:
    return PartitionState(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def offline_here(partition: Partition, state: PartitionState | None) -> Partition:
    """The partition offline on this broker, in the new state if there is one."""
    if state is None:
        return structs.replace(partition, log_dir=NO_LOG_DIR, future_dir=NO_LOG_DIR)
    return structs.replace(
        partition,
        log_dir=NO_LOG_DIR,
        future_dir=NO_LOG_DIR,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        leader_recovery_state=state.leader_recovery_state,
        partition_epoch=state.partition_epoch + 1,
    )


def without_move(partition: Partition) -> Partition:
    """The partition without its move to another log directory."""
    return structs.replace(partition, future_dir=NO_LOG_DIR)


def directory_offline(
    image: MetadataImage, log_dir: int, states: Mapping[TopicPartition, PartitionState]
) -> tuple[deltas.PartitionsChanged, ...]:
    """The changes when the directory fails: of partitions in it (with their new states) and of moves to it."""
    changes = []
    for topic in image.topics.values():
        offline = [
            offline_here(each, states.get(TopicPartition(topic.name, each.index)))
            for each in topic.partitions
            if each.log_dir == log_dir
        ]
        cancelled = [without_move(each) for each in topic.partitions if log_dir == each.future_dir != each.log_dir]
        if offline or cancelled:
            changes.append(deltas.PartitionsChanged(topic.name, (*offline, *cancelled)))
    return tuple(changes)


def moves_begun(image: MetadataImage, targets: Mapping[TopicPartition, int]) -> tuple[deltas.PartitionsChanged, ...]:
    """The changes that begin to move the partitions to these log directories."""
    by_topic: dict[str, list[Partition]] = {}
    for at, target in targets.items():
        row = image.topics[at.topic].partitions[at.partition]
        future_dir = NO_LOG_DIR if target == row.log_dir else target
        if future_dir != row.future_dir:
            by_topic.setdefault(at.topic, []).append(structs.replace(row, future_dir=future_dir))
    return tuple(deltas.PartitionsChanged(name, tuple(rows)) for name, rows in by_topic.items())


def move_ended(row: Partition, log_dir: int, target: int) -> Partition:
    """The partition in `log_dir`. A move to another directory that was requested meanwhile stays."""
    future_dir = NO_LOG_DIR if row.future_dir in (target, log_dir) else row.future_dir
    return structs.replace(row, log_dir=log_dir, future_dir=future_dir)


def after_move(
    image: MetadataImage, topic_id: bytes, index: int, log_dir: int, target: int
) -> tuple[deltas.PartitionsChanged, ...]:
    """The changes when the owner reports that the partition is in `log_dir` and its move to `target` is over."""
    topic = image.topic_by_id(UUID(bytes=topic_id))
    row = topic.partitions[index] if topic is not None and index < len(topic.partitions) else None
    if topic is None or row is None or row.log_dir == NO_LOG_DIR:
        return ()
    moved = move_ended(row, log_dir, target)
    return (deltas.PartitionsChanged(topic.name, (moved,)),) if moved != row else ()


def in_state(row: Partition, state: PartitionState) -> Partition:
    """`row` after `state` was stored: each write increases the partition epoch by one."""
    return structs.replace(
        row,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        leader_recovery_state=state.leader_recovery_state,
        partition_epoch=state.partition_epoch + 1,
    )


def in_states(
    image: MetadataImage, states: Mapping[TopicPartition, PartitionState]
) -> tuple[deltas.PartitionsChanged, ...]:
    """The changes after these states were stored."""
    by_topic: dict[str, list[Partition]] = {}
    for at, state in states.items():
        row = image.topics[at.topic].partitions[at.partition]
        by_topic.setdefault(at.topic, []).append(in_state(row, state))
    return tuple(deltas.PartitionsChanged(name, tuple(rows)) for name, rows in by_topic.items())
