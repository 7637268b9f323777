"""ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848).

A member sends its subscription and partitions, and gets its assignment.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.consumer.assignors import Assignment
from kafkad.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.wire.messages.consumer_replies import pack_consumer_heartbeat

_PATTERNS_FROM = 1


def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
    timeout = request.rebalance_timeout
    heartbeat = ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        version=caller.version,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=-1 if timeout is None else round(timeout / timedelta(milliseconds=1)),
        topics=request.subscribed_topic_names,
        regex=request.subscribed_topic_regex if caller.version >= _PATTERNS_FROM else None,
        assignor=request.server_assignor,
        owned=_owned(request.topic_partitions),
        client_id=caller.context.client.client_id,
        client_host=caller.context.client_host,
    )
    return shard.consumer.heartbeat(heartbeat, caller.token, moment)


def pack(reply: ConsumerHeartbeatReply, version: int) -> bytes:
    return pack_consumer_heartbeat(
        reply.code,
        reply.message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=reply.assignment,
    )


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack(ConsumerHeartbeatReply(code=code), version)


def _owned(rows: Iterable[Any] | None) -> Assignment | None:
    return None if rows is None else {row.topic_id: frozenset(row.partitions) for row in rows}
