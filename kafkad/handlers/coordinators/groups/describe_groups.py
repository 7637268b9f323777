"""DescribeGroups, versions 0 to 6: state and members of classic groups.

A group that does not exist is Dead; from version 6 on it also has an error (KIP-1043).
"""

from dataclasses import dataclass
from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.listing import DescribedGroup, DescribedMember, describe_classic
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.handlers.requests.operations import NOT_REQUESTED
from kafkad.wire.kio_codec import codec

_OPERATIONS_FROM = 3
_NOT_FOUND_FROM = 6

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe and alter configs: all operations on a group, as there is no authorizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The content of the response: the groups in the order of the request."""

    groups: tuple[DescribedGroup, ...]
    operations: int


def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
    with_operations = caller.version >= _OPERATIONS_FROM and request.include_authorized_operations
    reply = Described(
        groups=tuple(describe_classic(shard.groups, group_id) for group_id in request.groups),
        operations=GROUP_OPERATIONS if with_operations else NOT_REQUESTED,
    )
    return Outcome(replies=[(caller.token, reply)])


def pack(reply: Described, version: int) -> bytes:
    messages = codec("describe_groups", version)
    return messages.encode(groups=tuple(_group(each, reply.operations, version) for each in reply.groups))


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    groups = tuple(DescribedGroup(group_id=group_id, code=code) for group_id in request.groups)
    return pack(Described(groups=groups, operations=NOT_REQUESTED), version)


def _group(group: DescribedGroup, operations: int, version: int) -> Any:
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
        members=tuple(_member(each, version) for each in group.members),
        authorized_operations=operations if code is ErrorCode.NONE else NOT_REQUESTED,
    )


def _member(member: DescribedMember, version: int) -> Any:
    return codec("describe_groups", version).part(
        "DescribedGroupMember",
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )
