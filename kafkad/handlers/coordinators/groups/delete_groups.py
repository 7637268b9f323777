"""DeleteGroups, versions 0 to 2: deletes empty groups and their offsets."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.wire.kio_codec import codec

Results = list[tuple[str, ErrorCode]]


def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
    return shard.delete_groups(request.groups_names, caller.token)


def pack(reply: Results, version: int) -> bytes:
    messages = codec("delete_groups", version)
    return messages.encode(
        results=tuple(
            messages.part("DeletableGroupResult", group_id=group_id, error_code=code) for group_id, code in reply
        )
    )


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack([(group_id, code) for group_id in request.groups_names], version)
