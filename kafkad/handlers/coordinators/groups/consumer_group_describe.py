"""ConsumerGroupDescribe, versions 0 and 1: KIP-848 groups with the current and target assignment of each member."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.consumer.assignors import Assignment
from kafkad.core.groups.consumer.messages import DescribedConsumer, DescribedConsumerGroup
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.handlers.coordinators.groups.describe_groups import GROUP_OPERATIONS
from kafkad.handlers.requests.operations import NOT_REQUESTED
from kafkad.wire.kio_codec import Codec, codec

_TYPE_FROM = 1
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The content of the response, with the topic names at the time when it was made."""

    groups: tuple[DescribedConsumerGroup, ...]
    names: dict[UUID, str]
    operations: int


def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
    groups = tuple(shard.consumer.describe(group_id) for group_id in request.group_ids)
    reply = Described(
        groups=groups,
        names=_names(groups, shard.consumer.topics),
        operations=GROUP_OPERATIONS if request.include_authorized_operations else NOT_REQUESTED,
    )
    return Outcome(replies=[(caller.token, reply)])


def pack(reply: Described, version: int) -> bytes:
    messages = codec("consumer_group_describe", version)
    return messages.encode(groups=tuple(_group(messages, each, reply, version) for each in reply.groups))


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    groups = tuple(DescribedConsumerGroup(group_id=group_id, code=code) for group_id in request.group_ids)
    return pack(Described(groups=groups, names={}, operations=NOT_REQUESTED), version)


def _names(groups: tuple[DescribedConsumerGroup, ...], topics: Topics) -> dict[UUID, str]:
    ids = {
        topic
        for group in groups
        for member in group.members
        for assignment in (member.assignment, member.target)
        for topic in assignment
    }
    names = {topic: topics.name_of(topic) for topic in ids}
    return {topic: name for topic, name in names.items() if name is not None}


def _group(messages: Codec, group: DescribedConsumerGroup, reply: Described, version: int) -> Any:
    return messages.part(
        "DescribedGroup",
        error_code=group.code,
        error_message=group.message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(messages, each, reply, version) for each in group.members),
        authorized_operations=reply.operations if group.code is ErrorCode.NONE else NOT_REQUESTED,
    )


def _member(messages: Codec, member: DescribedConsumer, reply: Described, version: int) -> Any:
    values: dict[str, Any] = {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topics,
        "subscribed_topic_regex": member.regex or "",
        "assignment": _assignment(messages, member.assignment, reply),
        "target_assignment": _assignment(messages, member.target, reply),
    }
    if version >= _TYPE_FROM:
        values["member_type"] = _CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER
    return messages.part("Member", **values)


def _assignment(messages: Codec, assignment: Assignment, reply: Described) -> Any:
    rows = tuple(
        messages.part(
            "TopicPartitions", topic_id=topic, topic_name=reply.names[topic], partitions=tuple(sorted(indexes))
        )
        for topic, indexes in sorted(assignment.items())
        if topic in reply.names  # without deleted topics
    )
    return messages.part("Assignment", topic_partitions=rows)
