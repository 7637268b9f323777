"""AlterPartitionReassignments and ListPartitionReassignments: checks a reassignment, and finds those in progress.

The checks and error texts are those of Apache Kafka (ReplicationControlManager.java).
controller/elected/reassigning.py carries reassignments out.
"""

from collections.abc import Iterable, Mapping

from kafkad.core.controller.image import MetadataImage, Partition
from kafkad.core.controller.partition_rows import assignment_of
from kafkad.core.controller.topics.assignment import Assignment, ReplicaAssignment, validate_manual
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted
from kafkad.core.types import TopicPartition


def planned(
    image: MetadataImage,
    at: TopicPartition,
    target: Assignment | None,
    *,
    replication_factor_may_change: bool,
) -> ReplicaAssignment:
    """The requested assignment; `target` None cancels the reassignment in progress. Raises `KafkaError`."""
    row = _row(image, at)
    present = assignment_of(row)
    if target is None:
        if not present.is_being_reassigned:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        target = present.origin
    else:
        allowed = {**image.brokers, **dict.fromkeys(present.replicas)}
        target = validate_manual(target, allowed, None)
        if not replication_factor_may_change and len(target) != len(present.target):
            text = f"The replication factor is changed from {len(present.target)} to {len(target)}"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    assignment = present.reassigned_to(target)
    if set(row.isr).isdisjoint(assignment.replicas):
        # Only in-sync replicas have all records.
        text = (
            f"Unable to revert partition assignment for {at.topic}:{at.partition} to {list(target)} because "
            "it would require an unclean leader election."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return assignment


def _row(image: MetadataImage, at: TopicPartition) -> Partition:
    topic = image.topics.get(at.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {quoted(at.topic)}.")
    if not 0 <= at.partition < len(topic.partitions):
        text = f"Unable to find partition {at.topic}:{at.partition}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return topic.partitions[at.partition]


def under_way(
    image: MetadataImage, requested: Iterable[TopicPartition] | None
) -> Mapping[TopicPartition, ReplicaAssignment]:
    """The reassignments in progress of these partitions, or of all."""
    if requested is None:
        requested = (
            TopicPartition(name, row.index) for name, topic in image.topics.items() for row in topic.partitions
        )
    found = {}
    for at in requested:
        topic = image.topics.get(at.topic)
        if topic is not None and 0 <= at.partition < len(topic.partitions):
            assignment = assignment_of(topic.partitions[at.partition])
            if assignment.is_being_reassigned:
                found[at] = assignment
    return found
