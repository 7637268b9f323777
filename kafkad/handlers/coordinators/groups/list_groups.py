"""ListGroups, versions 0 to 5: all groups, filtered by state (from 4) and type (from 5)."""

from dataclasses import dataclass
from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.listing import ListedGroup, list_groups
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.wire.kio_codec import codec

_STATES_FROM = 4
_TYPES_FROM = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    groups: tuple[ListedGroup, ...] = ()
    code: ErrorCode = ErrorCode.NONE


def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
    groups = list_groups(
        shard.groups,
        request.states_filter if caller.version >= _STATES_FROM else (),
        request.types_filter if caller.version >= _TYPES_FROM else (),
    )
    return Outcome(replies=[(caller.token, Listed(groups=groups))])


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


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    """Groups of a partition with another coordinator are not listed here; this is no error."""
    return pack(Listed(code=ErrorCode.NONE if code is ErrorCode.NOT_COORDINATOR else code), version)
