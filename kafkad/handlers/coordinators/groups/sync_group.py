"""SyncGroup, versions 0 to 5: a member requests its assignment; the leader sends the assignments of all members.

From version 5 on the request must contain the protocol.
"""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import Synced, SyncGroup
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.wire.messages.membership_replies import pack_sync

_INSTANCE_ID_FROM = 3
_PROTOCOL_FROM = 5


def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
    has_protocol = caller.version >= _PROTOCOL_FROM
    if has_protocol and (request.protocol_type is None or request.protocol_name is None):
        return _rejected(caller, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return _rejected(caller, ErrorCode.INVALID_GROUP_ID)
    sync = SyncGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id if caller.version >= _INSTANCE_ID_FROM else None,
        protocol_type=request.protocol_type if has_protocol else None,
        protocol=request.protocol_name if has_protocol else None,
        assignments={each.member_id: each.assignment for each in request.assignments},
    )
    return shard.classic.sync(sync, caller.token, moment)


def pack(reply: Synced, version: int) -> bytes:
    return pack_sync(
        version,
        reply.code,
        protocol_type=reply.protocol_type,
        protocol=reply.protocol,
        assignment=reply.assignment,
    )


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack(Synced(code=code), version)


def _rejected(caller: Caller, code: ErrorCode) -> Outcome[GroupRecord]:
    return Outcome(replies=[(caller.token, Synced(code=code))])
