"""ElectLeaders: the new leader of each partition, or the reason for none (ReplicationControlManager.java)."""

from collections.abc import Iterable, Mapping
from enum import IntEnum

from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import NO_LEADER, NO_LOG_DIR, NO_SLOT, MetadataImage, Partition
from kafkad.core.controller.partition_rows import state_of
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted
from kafkad.core.types import TopicPartition


class ElectionType(IntEnum):
    """Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


Elections = Mapping[TopicPartition, PartitionState | KafkaError]
"""The result for each partition: its next state, or the reason why it keeps its leader."""


def elections(
    image: MetadataImage, electorate: Electorate, requested: Iterable[TopicPartition] | None, kind: ElectionType
) -> Elections:
    """With `requested` None all partitions, without those that need no election."""
    if requested is not None:
        return {at: _election(image, electorate, at, kind) for at in requested}
    every = [TopicPartition(name, row.index) for name, topic in image.topics.items() for row in topic.partitions]
    found = {at: _election(image, electorate, at, kind) for at in every}
    return {at: each for at, each in found.items() if _is_relevant(each)}


def _is_relevant(result: PartitionState | KafkaError) -> bool:
    return not (isinstance(result, KafkaError) and result.code is ErrorCode.ELECTION_NOT_NEEDED)


def _election(
    image: MetadataImage, electorate: Electorate, at: TopicPartition, kind: ElectionType
) -> PartitionState | KafkaError:
    topic = image.topics.get(at.topic)
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {quoted(at.topic)}")
    if not 0 <= at.partition < len(topic.partitions):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {at.topic}-{at.partition}")
    row = topic.partitions[at.partition]
    if _has_its_leader(row, kind):
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if row.isr and not _is_offline_here(row):
        choose = electorate.preferred_state if kind is ElectionType.PREFERRED else electorate.unclean_state
        state = choose(at, row.replicas, state_of(row))
        if state is not None:
            return state
    if kind is ElectionType.PREFERRED:
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")


def _has_its_leader(row: Partition, kind: ElectionType) -> bool:
    if kind is ElectionType.UNCLEAN:
        return row.leader != NO_LEADER
    return row.leader != NO_LEADER and row.leader == row.replicas[0]


def _is_offline_here(row: Partition) -> bool:
    return row.slot != NO_SLOT and row.log_dir == NO_LOG_DIR
