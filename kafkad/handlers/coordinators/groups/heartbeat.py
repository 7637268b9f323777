"""Heartbeat, versions 0 to 4: keeps a member's session alive, and reports whether the group rebalances."""

from struct import Struct
from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import Heartbeat
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.wire.error_counts import count_error

_INSTANCE_ID_FROM = 3
_CODE = Struct(">h")
_THROTTLE_AND_CODE = Struct(">ih")
_WITH_TAGGED_FIELDS = Struct(">ihB")


def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
    if not request.group_id:
        return Outcome(replies=[(caller.token, ErrorCode.INVALID_GROUP_ID)])
    heartbeat = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id if caller.version >= _INSTANCE_ID_FROM else None,
    )
    return shard.classic.heartbeat(heartbeat, caller.token, moment)


def pack(reply: ErrorCode, version: int) -> bytes:
    """Packed by hand, because it is the most frequent response of coordinators."""
    count_error(reply)
    if version == 0:
        return _CODE.pack(reply)
    if version <= _INSTANCE_ID_FROM:
        return _THROTTLE_AND_CODE.pack(0, reply)
    return _WITH_TAGGED_FIELDS.pack(0, reply, 0)


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    """As in Apache Kafka, heartbeats succeed while groups are loaded: sessions begin after the load."""
    return pack(ErrorCode.NONE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code, version)
