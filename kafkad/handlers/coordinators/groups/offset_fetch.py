"""OffsetFetch, versions 1 to 10: the committed offsets of groups. Version 8 adds several groups, version 10 topic ids.

The network process splits requests by internal partition, so all groups here belong to one.
"""

from typing import Any
from uuid import UUID

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.offsets.commit import BY_TOPIC_ID_FROM
from kafkad.core.groups.offsets.fetch import MAX_BUILT_ROWS
from kafkad.core.groups.offsets.messages import (
    FetchedGroup,
    FetchedPartition,
    FetchedTopic,
    FetchReply,
    GroupFetch,
    TopicFetch,
)
from kafkad.core.groups.records import GroupRecord
from kafkad.core.types import NO_TOPIC_ID
from kafkad.handlers.coordinators.requests.offset_shard import OffsetShard
from kafkad.wire.messages.offset_replies import MANY_GROUPS_FROM, pack_fetch, pack_fetch_in_steps
from kafkad.wire.steps import Reading

_GROUP_ERROR_FROM = 2
_STABLE_FROM = 7
_MEMBER_FROM = 9


def handle(request: Any, caller: Caller, shard: OffsetShard, moment: Moment) -> Outcome[GroupRecord]:
    require_stable = caller.version >= _STABLE_FROM and request.require_stable
    return shard.offsets.fetch(_groups(request, caller.version), caller, require_stable=require_stable)


def pack(reply: FetchReply, version: int) -> bytes:
    return pack_fetch(version, reply.groups)


def pack_in_steps(reply: FetchReply, version: int) -> tuple[int, Reading[bytes]] | None:
    """The number of partitions and the steps that pack them; None if they are few enough for `pack`."""
    partitions = sum(len(topic.partitions) for group in reply.groups for topic in group.topics)
    return (partitions, pack_fetch_in_steps(version, reply.groups)) if partitions > MAX_BUILT_ROWS else None


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack_fetch(version, [_group_error(group, version, code) for group in _groups(request, version)])


def _groups(request: Any, version: int) -> list[GroupFetch]:
    if version < MANY_GROUPS_FROM:
        return [GroupFetch(request.group_id, _topics(request.topics, version))]
    if version < _MEMBER_FROM:
        return [GroupFetch(each.group_id, _topics(each.topics, version)) for each in request.groups]
    return [
        GroupFetch(each.group_id, _topics(each.topics, version), each.member_id, each.member_epoch)
        for each in request.groups
    ]


def _topics(topics: Any, version: int) -> list[TopicFetch] | None:
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
