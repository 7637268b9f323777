"""OffsetCommit, versions 2 to 10: a group commits offsets. Topics have ids instead of names from version 10 on."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.offsets.commit import BY_TOPIC_ID_FROM
from kafkad.core.groups.offsets.messages import NO_RETENTION, CommitReply, OffsetCommit, PartitionCommit, TopicCommit
from kafkad.core.groups.records import GroupRecord
from kafkad.core.types import NO_LEADER_EPOCH, NO_TOPIC_ID
from kafkad.handlers.coordinators.requests.offset_shard import OffsetShard
from kafkad.wire.messages.offset_replies import pack_commit

_RETENTION_UP_TO = 4
_LEADER_EPOCH_FROM = 6
_INSTANCE_ID_FROM = 7


def handle(request: Any, caller: Caller, shard: OffsetShard, moment: Moment) -> Outcome[GroupRecord]:
    version = caller.version
    commit = OffsetCommit(
        group_id=request.group_id,
        topics=[_topic(each, version) for each in request.topics],
        member_id=request.member_id,
        instance_id=request.group_instance_id if version >= _INSTANCE_ID_FROM else None,
        generation=request.generation_id_or_member_epoch,
        retention_ms=request.retention_time if version <= _RETENTION_UP_TO else NO_RETENTION,
    )
    return shard.offsets.commit(commit, caller, moment)


def pack(reply: CommitReply, version: int) -> bytes:
    return pack_commit(version, reply.topics)


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


def _topic(topic: Any, version: int) -> TopicCommit:
    if version >= _LEADER_EPOCH_FROM:
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
