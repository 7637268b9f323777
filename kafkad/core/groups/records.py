"""The records of `__consumer_offsets` as values, each with its tombstone.

Names and fields are those of Apache Kafka's schemas; `wire` encodes and decodes them. A record contains the new state,
not the change.
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kafkad.core.types import NO_LEADER_EPOCH, NO_TIMESTAMP, NO_TOPIC_ID


class OffsetCommitted(NamedTuple):
    """The committed offset of a partition. A tuple for speed, unlike the others: loading makes millions."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp: int = NO_TIMESTAMP
    expire_timestamp: int = NO_TIMESTAMP
    """Set only by clients that send a retention time (OffsetCommit before version 5)."""
    topic_id: UUID = NO_TOPIC_ID


class OffsetRemoved(NamedTuple):
    """A tuple for speed, like commits."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a classic group. `subscription` is its metadata for the selected protocol."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout: int = -1
    """Milliseconds; -1 in values of version 0, which use the session timeout instead."""
    session_timeout: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """A generation of a classic group, with all members and assignments."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int = NO_TIMESTAMP
    members: tuple[GroupMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataRemoved:
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadata:
    """The epoch of a KIP-848 group. `metadata_hash` is that of its subscribed topics."""

    group_id: str
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataRemoved:
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRacks:
    partition: int
    racks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedTopic:
    topic_id: UUID
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionRacks, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadata:
    """Written by Apache Kafka 3.7 to 4.0 only; replaced by the hash in `ConsumerGroupMetadata`."""

    group_id: str
    topics: tuple[SubscribedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataRemoved:
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """The JoinGroup fields of a member of a KIP-848 group that uses the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadata:
    group_id: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataRemoved:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadata:
    """The epoch of the target assignment, and its time (0: written before Apache Kafka 4.3)."""

    group_id: str
    assignment_epoch: int
    assignment_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataRemoved:
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    topic_id: UUID
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMember:
    group_id: str
    member_id: str
    topic_partitions: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberRemoved:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPartitions:
    """`assignment_epochs` has for each partition the member epoch in which it was assigned; empty: unknown.

    Apache Kafka writes empty or None, with the same meaning.
    """

    topic_id: UUID
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignment:
    group_id: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: tuple[AssignedPartitions, ...]
    partitions_pending_revocation: tuple[AssignedPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentRemoved:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpression:
    """The topics that match a subscribed pattern in metadata `version`, resolved at `timestamp`."""

    group_id: str
    regular_expression: str
    topics: tuple[str, ...]
    version: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionRemoved:
    group_id: str
    regular_expression: str


GroupRecord = (
    OffsetCommitted
    | OffsetRemoved
    | GroupMetadata
    | GroupMetadataRemoved
    | ConsumerGroupMetadata
    | ConsumerGroupMetadataRemoved
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupPartitionMetadataRemoved
    | ConsumerGroupMemberMetadata
    | ConsumerGroupMemberMetadataRemoved
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupTargetAssignmentMetadataRemoved
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupTargetAssignmentMemberRemoved
    | ConsumerGroupCurrentMemberAssignment
    | ConsumerGroupCurrentMemberAssignmentRemoved
    | ConsumerGroupRegularExpression
    | ConsumerGroupRegularExpressionRemoved
)
