"""OffsetDelete, version 0: deletes committed offsets of topics that no member of the group is subscribed to."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.offsets.messages import DeleteReply, OffsetDelete
from kafkad.core.groups.records import GroupRecord
from kafkad.handlers.coordinators.requests.offset_shard import OffsetShard
from kafkad.wire.messages.offset_replies import pack_delete


def handle(request: Any, caller: Caller, shard: OffsetShard, moment: Moment) -> Outcome[GroupRecord]:
    topics = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    return shard.offsets.delete(OffsetDelete(request.group_id, topics), caller)


def pack(reply: DeleteReply, version: int) -> bytes:
    return pack_delete(reply.code, reply.topics)


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack_delete(code, [])
