"""JoinGroup, versions 0 to 9: a client joins a group, and waits until all members have joined.

Differences between versions: 0 has no rebalance timeout (the session timeout is used), from 4 a new member has to join
again with its member id, from 5 members may be static, from 9 the leader may skip the assignment.
"""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import Joined, JoinGroup
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.wire.kio_codec import milliseconds
from kafkad.wire.messages.membership_replies import pack_join

_REBALANCE_TIMEOUT_FROM = 1
_MEMBER_ID_REQUIRED_FROM = 4
_INSTANCE_ID_FROM = 5
_REASON_FROM = 8
_SKIP_ASSIGNMENT_FROM = 9


def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
    join = _join_group(request, caller)
    code = ErrorCode.NONE
    if not join.group_id:
        code = ErrorCode.INVALID_GROUP_ID
    elif not shard.config.min_session_timeout_ms <= join.session_timeout_ms <= shard.config.max_session_timeout_ms:
        code = ErrorCode.INVALID_SESSION_TIMEOUT
    if code is not ErrorCode.NONE:
        return Outcome(replies=[(caller.token, Joined(code=code, member_id=join.member_id))])
    return shard.classic.join(join, caller.token, moment)


def pack(reply: Joined, version: int) -> bytes:
    return pack_join(
        version,
        reply.code,
        reply.generation,
        protocol_type=reply.protocol_type,
        protocol=reply.protocol,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=((each.member_id, each.instance_id, each.metadata) for each in reply.members),
    )


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack(Joined(code=code), version)


def _join_group(request: Any, caller: Caller) -> JoinGroup:
    version = caller.version
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout_ms = session_timeout_ms
    if version >= _REBALANCE_TIMEOUT_FROM:
        rebalance_timeout_ms = milliseconds(request.rebalance_timeout)
    return JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id if version >= _INSTANCE_ID_FROM else None,
        client_id=caller.context.client.client_id,
        client_host=caller.context.client_host,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        reason=request.reason if version >= _REASON_FROM else None,
        requires_known_member_id=version >= _MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment=version >= _SKIP_ASSIGNMENT_FROM,
    )
