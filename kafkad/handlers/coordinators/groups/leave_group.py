"""LeaveGroup, versions 0 to 5: members leave; from version 3 on several at once, static members by instance id."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import LeaveGroup, LeavingMember, Left
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.wire.kio_codec import codec

_MANY_MEMBERS_FROM = 3
_REASON_FROM = 5


def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
    if not request.group_id:
        return Outcome(replies=[(caller.token, Left(code=ErrorCode.INVALID_GROUP_ID))])
    leave = LeaveGroup(group_id=request.group_id, members=_members(request, caller.version))
    return shard.classic.leave(leave, caller.token, moment)


def pack(reply: Left, version: int) -> bytes:
    messages = codec("leave_group", version)
    code = reply.code
    if version < _MANY_MEMBERS_FROM and code is ErrorCode.NONE and reply.members:
        code = reply.members[0].code
    return messages.encode(
        error_code=code,
        members=tuple(
            messages.part(
                "MemberResponse",
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                error_code=each.code,
            )
            for each in (reply.members if version >= _MANY_MEMBERS_FROM else ())
        ),
    )


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack(Left(code=code), version)


def _members(request: Any, version: int) -> tuple[LeavingMember, ...]:
    if version < _MANY_MEMBERS_FROM:
        return (LeavingMember(member_id=request.member_id),)
    return tuple(
        LeavingMember(
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            reason=each.reason if version >= _REASON_FROM else None,
        )
        for each in request.members
    )
