"""The APIs of committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete."""

from typing import Any, Protocol
from uuid import UUID

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.offsets.commit import BY_TOPIC_ID_FROM
from kafkad.core.groups.offsets.fetch import MAX_BUILT_ROWS
from kafkad.core.groups.offsets.messages import (
    NO_RETENTION,
    CommitReply,
    DeleteReply,
    FetchedGroup,
    FetchedPartition,
    FetchedTopic,
    FetchReply,
    GroupFetch,
    OffsetCommit,
    OffsetDelete,
    PartitionCommit,
    TopicCommit,
    TopicFetch,
    TxnOffsetCommit,
)
from kafkad.core.groups.offsets.offset_metadata import GroupOffsets
from kafkad.core.groups.records import GroupRecord
from kafkad.core.types import NO_GENERATION, NO_LEADER_EPOCH, NO_TOPIC_ID
from kafkad.wire.messages.offset_replies import (
    MANY_GROUPS_FROM,
    pack_commit,
    pack_delete,
    pack_fetch,
    pack_fetch_in_steps,
    pack_txn_commit,
)
from kafkad.wire.steps import Reading


class OffsetShard(Protocol):
    """A group shard, as the APIs about offsets use it."""

    @property
    def offsets(self) -> GroupOffsets: ...


_RETENTION_UP_TO = 4
_COMMIT_LEADER_EPOCH_FROM = 6
_INSTANCE_ID_FROM = 7


def _committed_topic(topic: Any, version: int) -> TopicCommit:
    if version >= _COMMIT_LEADER_EPOCH_FROM:
        partitions = [
            PartitionCommit(
                each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata
            )
            for each in topic.partitions
        ]
    else:
        partitions = [
            PartitionCommit(each.partition_index, each.committed_offset, NO_LEADER_EPOCH, each.committed_metadata)
            for each in topic.partitions
        ]
    if version >= BY_TOPIC_ID_FROM:
        return TopicCommit("", partitions, topic.topic_id or NO_TOPIC_ID)
    return TopicCommit(topic.name, partitions)


class OffsetCommitApi:
    """OffsetCommit, versions 2 to 10: a group commits offsets. Topics have ids instead of names from version 10 on."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: OffsetShard, moment: Moment) -> Outcome[GroupRecord]:
        version = caller.version
        commit = OffsetCommit(
            group_id=request.group_id,
            topics=[_committed_topic(each, version) for each in request.topics],
            member_id=request.member_id,
            instance_id=request.group_instance_id if version >= _INSTANCE_ID_FROM else None,
            generation=request.generation_id_or_member_epoch,
            retention_ms=request.retention_time if version <= _RETENTION_UP_TO else NO_RETENTION,
        )
        return shard.offsets.commit(commit, caller, moment)

    @staticmethod
    def pack(reply: CommitReply, version: int) -> bytes:
        return pack_commit(version, reply.topics)

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        by_id = version >= BY_TOPIC_ID_FROM
        rows = [
            (
                "" if by_id else topic.name,
                (topic.topic_id or NO_TOPIC_ID) if by_id else NO_TOPIC_ID,
                [(each.partition_index, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
        return pack_commit(version, rows)


_TXN_LEADER_EPOCH_FROM = 2
_TXN_MEMBER_FROM = 3
_LOADING_FROM = 2
"""Producers before Kafka 2.0 treat COORDINATOR_LOAD_IN_PROGRESS as fatal."""


def _txn_topic(topic: Any, version: int) -> TopicCommit:
    has_epoch = version >= _TXN_LEADER_EPOCH_FROM
    partitions = [
        PartitionCommit(
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch if has_epoch else NO_LEADER_EPOCH,
            each.committed_metadata,
        )
        for each in topic.partitions
    ]
    return TopicCommit(topic.name, partitions)


class TxnOffsetCommitApi:
    """TxnOffsetCommit, versions 0 to 5: offsets that are committed with a producer's transaction."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: OffsetShard, moment: Moment) -> Outcome[GroupRecord]:
        has_member = caller.version >= _TXN_MEMBER_FROM
        commit = TxnOffsetCommit(
            group_id=request.group_id,
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            topics=[_txn_topic(each, caller.version) for each in request.topics],
            member_id=request.member_id if has_member else "",
            instance_id=request.group_instance_id if has_member else None,
            generation=request.generation_id if has_member else NO_GENERATION,
        )
        return shard.offsets.txn_commit(commit, caller, moment)

    @staticmethod
    def pack(reply: CommitReply, version: int) -> bytes:
        return pack_txn_commit(version, reply.topics)

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        if not request.group_id:
            # Here the transaction is verified before the group id is checked; Apache Kafka checks the group id first.
            code = ErrorCode.INVALID_GROUP_ID
        elif code is ErrorCode.PRODUCER_FENCED:
            # The transaction coordinator's code for another epoch; this API uses INVALID_PRODUCER_EPOCH.
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_FROM:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        rows = [
            (topic.name, NO_TOPIC_ID, [(each.partition_index, code) for each in topic.partitions])
            for topic in request.topics
        ]
        return pack_txn_commit(version, rows)


_GROUP_ERROR_FROM = 2
_STABLE_FROM = 7
_FETCH_MEMBER_FROM = 9


def _fetched_groups(request: Any, version: int) -> list[GroupFetch]:
    if version < MANY_GROUPS_FROM:
        return [GroupFetch(request.group_id, _fetched_topics(request.topics, version))]
    if version < _FETCH_MEMBER_FROM:
        return [GroupFetch(each.group_id, _fetched_topics(each.topics, version)) for each in request.groups]
    return [
        GroupFetch(each.group_id, _fetched_topics(each.topics, version), each.member_id, each.member_epoch)
        for each in request.groups
    ]


def _fetched_topics(topics: Any, version: int) -> list[TopicFetch] | None:
    if topics is None:
        return None
    if version >= BY_TOPIC_ID_FROM:
        return [TopicFetch("", each.partition_indexes, each.topic_id or NO_TOPIC_ID) for each in topics]
    return [TopicFetch(each.name, each.partition_indexes) for each in topics]


def _group_error(group: GroupFetch, version: int, code: ErrorCode) -> FetchedGroup:
    if version >= _GROUP_ERROR_FROM:
        return FetchedGroup(group.group_id, [], code)
    return FetchedGroup(group.group_id, [_topic_error(topic, code) for topic in group.topics or ()])


def _topic_error(topic: TopicFetch, code: ErrorCode) -> FetchedTopic:
    no_id: UUID = NO_TOPIC_ID
    return FetchedTopic(topic.name, no_id, [FetchedPartition(partition, code=code) for partition in topic.partitions])


class OffsetFetchApi:
    """OffsetFetch, versions 1 to 10: the committed offsets of groups.

    Version 8 adds several groups, version 10 topic ids. The network process splits requests by internal partition, so
    all groups here belong to one.
    """

    @staticmethod
    def handle(request: Any, caller: Caller, shard: OffsetShard, moment: Moment) -> Outcome[GroupRecord]:
        require_stable = caller.version >= _STABLE_FROM and request.require_stable
        return shard.offsets.fetch(_fetched_groups(request, caller.version), caller, require_stable=require_stable)

    @staticmethod
    def pack(reply: FetchReply, version: int) -> bytes:
        return pack_fetch(version, reply.groups)

    @staticmethod
    def pack_in_steps(reply: FetchReply, version: int) -> tuple[int, Reading[bytes]] | None:
        """The number of partitions and the steps that pack them; None if they are few enough for `pack`."""
        partitions = sum(len(topic.partitions) for group in reply.groups for topic in group.topics)
        return (partitions, pack_fetch_in_steps(version, reply.groups)) if partitions > MAX_BUILT_ROWS else None

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return pack_fetch(version, [_group_error(group, version, code) for group in _fetched_groups(request, version)])


class OffsetDeleteApi:
    """OffsetDelete, version 0: deletes committed offsets of topics that no member of the group is subscribed to."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: OffsetShard, moment: Moment) -> Outcome[GroupRecord]:
        topics = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
        return shard.offsets.delete(OffsetDelete(request.group_id, topics), caller)

    @staticmethod
    def pack(reply: DeleteReply, version: int) -> bytes:
        return pack_delete(reply.code, reply.topics)

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return pack_delete(code, [])
