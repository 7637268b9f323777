"""The APIs that describe, list and delete groups."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.consumer.assignors import Assignment
from kafkad.core.groups.consumer.messages import DescribedConsumer, DescribedConsumerGroup
from kafkad.core.groups.listing import DescribedGroup, DescribedMember, ListedGroup, describe_classic, list_groups
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.handlers.requests.operations import NOT_REQUESTED
from kafkad.wire.kio_codec import Codec, codec

_OPERATIONS_FROM = 3
_NOT_FOUND_FROM = 6
GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe and alter configs: all operations on a group, as there is no authorizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedClassic:
    """The content of the response: the groups in the order of the request."""

    groups: tuple[DescribedGroup, ...]
    operations: int


def _classic_group(group: DescribedGroup, operations: int, version: int) -> Any:
    messages = codec("describe_groups", version)
    code, message = group.code, group.message
    if code is ErrorCode.GROUP_ID_NOT_FOUND and version < _NOT_FOUND_FROM:
        code, message = ErrorCode.NONE, None
    return messages.part(
        "DescribedGroup",
        error_code=code,
        error_message=message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=tuple(_classic_member(each, version) for each in group.members),
        authorized_operations=operations if code is ErrorCode.NONE else NOT_REQUESTED,
    )


def _classic_member(member: DescribedMember, version: int) -> Any:
    return codec("describe_groups", version).part(
        "DescribedGroupMember",
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )


class DescribeGroupsApi:
    """DescribeGroups, versions 0 to 6: state and members of classic groups.

    A group that does not exist is Dead; from version 6 on it also has an error (KIP-1043).
    """

    @staticmethod
    def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
        with_operations = caller.version >= _OPERATIONS_FROM and request.include_authorized_operations
        reply = DescribedClassic(
            groups=tuple(describe_classic(shard.groups, group_id) for group_id in request.groups),
            operations=GROUP_OPERATIONS if with_operations else NOT_REQUESTED,
        )
        return Outcome(replies=[(caller.token, reply)])

    @staticmethod
    def pack(reply: DescribedClassic, version: int) -> bytes:
        messages = codec("describe_groups", version)
        return messages.encode(groups=tuple(_classic_group(each, reply.operations, version) for each in reply.groups))

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        groups = tuple(DescribedGroup(group_id=group_id, code=code) for group_id in request.groups)
        return DescribeGroupsApi.pack(DescribedClassic(groups=groups, operations=NOT_REQUESTED), version)


_TYPE_FROM = 1
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumers:
    """The content of the response, with the topic names at the time when it was made."""

    groups: tuple[DescribedConsumerGroup, ...]
    names: dict[UUID, str]
    operations: int


def _topic_names(groups: tuple[DescribedConsumerGroup, ...], topics: Topics) -> dict[UUID, str]:
    ids = {
        topic
        for group in groups
        for member in group.members
        for assignment in (member.assignment, member.target)
        for topic in assignment
    }
    names = {topic: topics.name_of(topic) for topic in ids}
    return {topic: name for topic, name in names.items() if name is not None}


def _consumer_group(messages: Codec, group: DescribedConsumerGroup, reply: DescribedConsumers, version: int) -> Any:
    return messages.part(
        "DescribedGroup",
        error_code=group.code,
        error_message=group.message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_consumer_member(messages, each, reply, version) for each in group.members),
        authorized_operations=reply.operations if group.code is ErrorCode.NONE else NOT_REQUESTED,
    )


def _consumer_member(messages: Codec, member: DescribedConsumer, reply: DescribedConsumers, version: int) -> Any:
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


def _assignment(messages: Codec, assignment: Assignment, reply: DescribedConsumers) -> Any:
    rows = tuple(
        messages.part(
            "TopicPartitions", topic_id=topic, topic_name=reply.names[topic], partitions=tuple(sorted(indexes))
        )
        for topic, indexes in sorted(assignment.items())
        if topic in reply.names  # without deleted topics
    )
    return messages.part("Assignment", topic_partitions=rows)


class ConsumerGroupDescribeApi:
    """ConsumerGroupDescribe, versions 0 and 1: KIP-848 groups with the current and target assignment of each member."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
        groups = tuple(shard.consumer.describe(group_id) for group_id in request.group_ids)
        reply = DescribedConsumers(
            groups=groups,
            names=_topic_names(groups, shard.consumer.topics),
            operations=GROUP_OPERATIONS if request.include_authorized_operations else NOT_REQUESTED,
        )
        return Outcome(replies=[(caller.token, reply)])

    @staticmethod
    def pack(reply: DescribedConsumers, version: int) -> bytes:
        messages = codec("consumer_group_describe", version)
        return messages.encode(groups=tuple(_consumer_group(messages, each, reply, version) for each in reply.groups))

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        groups = tuple(DescribedConsumerGroup(group_id=group_id, code=code) for group_id in request.group_ids)
        return ConsumerGroupDescribeApi.pack(
            DescribedConsumers(groups=groups, names={}, operations=NOT_REQUESTED), version
        )


_STATES_FROM = 4
_TYPES_FROM = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    groups: tuple[ListedGroup, ...] = ()
    code: ErrorCode = ErrorCode.NONE


class ListGroupsApi:
    """ListGroups, versions 0 to 5: all groups, filtered by state (from 4) and type (from 5)."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
        groups = list_groups(
            shard.groups,
            request.states_filter if caller.version >= _STATES_FROM else (),
            request.types_filter if caller.version >= _TYPES_FROM else (),
        )
        return Outcome(replies=[(caller.token, Listed(groups=groups))])

    @staticmethod
    def pack(reply: Listed, version: int) -> bytes:
        messages = codec("list_groups", version)
        return messages.encode(
            error_code=reply.code,
            groups=tuple(
                messages.part(
                    "ListedGroup",
                    group_id=each.group_id,
                    protocol_type=each.protocol_type,
                    group_state=each.state,
                    group_type=each.type.value,
                )
                for each in reply.groups
            ),
        )

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        """Groups of a partition with another coordinator are not listed here; this is no error."""
        return ListGroupsApi.pack(Listed(code=ErrorCode.NONE if code is ErrorCode.NOT_COORDINATOR else code), version)


DeletedGroups = list[tuple[str, ErrorCode]]


class DeleteGroupsApi:
    """DeleteGroups, versions 0 to 2: deletes empty groups and their offsets."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
        return shard.delete_groups(request.groups_names, caller.token)

    @staticmethod
    def pack(reply: DeletedGroups, version: int) -> bytes:
        messages = codec("delete_groups", version)
        return messages.encode(
            results=tuple(
                messages.part("DeletableGroupResult", group_id=group_id, error_code=code) for group_id, code in reply
            )
        )

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return DeleteGroupsApi.pack([(group_id, code) for group_id in request.groups_names], version)
