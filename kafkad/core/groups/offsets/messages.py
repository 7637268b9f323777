"""Requests about a group's offsets, and their replies.

Tuples for speed: a commit makes several, and the goal is ten thousand commits a second.
"""

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_GENERATION, NO_LEADER_EPOCH, NO_TOPIC_ID

NO_OFFSET = -1
NO_RETENTION = -1


class PartitionCommit(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None


class TopicCommit(NamedTuple):
    """By name, or by id if the name is empty."""

    name: str
    partitions: list[PartitionCommit]
    topic_id: UUID = NO_TOPIC_ID


class OffsetCommit(NamedTuple):
    """`generation` is the member epoch in a KIP-848 group; negative for clients outside of a generation."""

    group_id: str
    topics: list[TopicCommit]
    member_id: str = ""
    instance_id: str | None = None
    generation: int = NO_GENERATION
    retention_ms: int = NO_RETENTION


class TxnOffsetCommit(NamedTuple):
    """Offsets that become valid when the producer's transaction commits."""

    group_id: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: list[TopicCommit]
    member_id: str = ""
    instance_id: str | None = None
    generation: int = NO_GENERATION


class TopicResult(NamedTuple):
    """(partition, code) of each partition in the request."""

    name: str
    topic_id: UUID
    partitions: list[tuple[int, ErrorCode]]


class CommitReply(NamedTuple):
    """For both kinds of commits."""

    topics: list[TopicResult]


class TopicFetch(NamedTuple):
    """By name, or by id if the name is empty."""

    name: str
    partitions: tuple[int, ...]
    topic_id: UUID = NO_TOPIC_ID


class GroupFetch(NamedTuple):
    """`topics` None: all offsets of the group. Members of KIP-848 groups send their member id and epoch."""

    group_id: str
    topics: list[TopicFetch] | None
    member_id: str | None = None
    member_epoch: int = -1


class FetchedPartition(NamedTuple):
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    code: ErrorCode = ErrorCode.NONE


class FetchedTopic(NamedTuple):
    """For groups with very many offsets the rows of `partitions` are created lazily."""

    name: str
    topic_id: UUID
    partitions: Collection[FetchedPartition]


class FetchedGroup(NamedTuple):
    group_id: str
    topics: list[FetchedTopic]
    code: ErrorCode = ErrorCode.NONE


class FetchReply(NamedTuple):
    groups: list[FetchedGroup]


class OffsetDelete(NamedTuple):
    """`topics`: (name, partitions)."""

    group_id: str
    topics: list[tuple[str, list[int]]]


class DeleteReply(NamedTuple):
    """With a `code` there are no topics: the whole request was rejected."""

    topics: list[TopicResult]
    code: ErrorCode = ErrorCode.NONE
