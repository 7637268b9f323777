"""The APIs with which members join groups, get their assignments, keep their sessions and leave.

JoinGroup, SyncGroup, Heartbeat and LeaveGroup are the protocol of classic groups, ConsumerGroupHeartbeat is the whole
protocol of KIP-848.
"""

from collections.abc import Iterable
from datetime import timedelta
from struct import Struct
from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    Left,
    Synced,
    SyncGroup,
)
from kafkad.core.groups.consumer.assignors import Assignment
from kafkad.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.wire.error_counts import count_error
from kafkad.wire.kio_codec import codec, milliseconds
from kafkad.wire.messages.membership_replies import pack_consumer_heartbeat, pack_join, pack_sync

_REBALANCE_TIMEOUT_FROM = 1
_MEMBER_ID_REQUIRED_FROM = 4
_JOIN_INSTANCE_ID_FROM = 5
_JOIN_REASON_FROM = 8
_SKIP_ASSIGNMENT_FROM = 9


def _join_group(request: Any, caller: Caller) -> JoinGroup:
    version = caller.version
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout_ms = session_timeout_ms
    if version >= _REBALANCE_TIMEOUT_FROM:
        rebalance_timeout_ms = milliseconds(request.rebalance_timeout)
    return JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id if version >= _JOIN_INSTANCE_ID_FROM else None,
        client_id=caller.context.client.client_id,
        client_host=caller.context.client_host,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        reason=request.reason if version >= _JOIN_REASON_FROM else None,
        requires_known_member_id=version >= _MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment=version >= _SKIP_ASSIGNMENT_FROM,
    )


class JoinGroupApi:
    """JoinGroup, versions 0 to 9: a client joins a group, and waits until all members have joined.

    Differences between versions: 0 has no rebalance timeout (the session timeout is used), from 4 a new member has to
    join again with its member id, from 5 members may be static, from 9 the leader may skip the assignment.
    """

    @staticmethod
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

    @staticmethod
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

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return JoinGroupApi.pack(Joined(code=code), version)


_SYNC_INSTANCE_ID_FROM = 3
_PROTOCOL_FROM = 5


def _rejected(caller: Caller, code: ErrorCode) -> Outcome[GroupRecord]:
    return Outcome(replies=[(caller.token, Synced(code=code))])


class SyncGroupApi:
    """SyncGroup, versions 0 to 5: a member requests its assignment; the leader sends the assignments of all members.

    From version 5 on the request must contain the protocol.
    """

    @staticmethod
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
            instance_id=request.group_instance_id if caller.version >= _SYNC_INSTANCE_ID_FROM else None,
            protocol_type=request.protocol_type if has_protocol else None,
            protocol=request.protocol_name if has_protocol else None,
            assignments={each.member_id: each.assignment for each in request.assignments},
        )
        return shard.classic.sync(sync, caller.token, moment)

    @staticmethod
    def pack(reply: Synced, version: int) -> bytes:
        return pack_sync(
            version,
            reply.code,
            protocol_type=reply.protocol_type,
            protocol=reply.protocol,
            assignment=reply.assignment,
        )

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return SyncGroupApi.pack(Synced(code=code), version)


_HEARTBEAT_INSTANCE_ID_FROM = 3
_CODE = Struct(">h")
_THROTTLE_AND_CODE = Struct(">ih")
_WITH_TAGGED_FIELDS = Struct(">ihB")


class HeartbeatApi:
    """Heartbeat, versions 0 to 4: keeps a member's session alive, and reports whether the group rebalances."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
        if not request.group_id:
            return Outcome(replies=[(caller.token, ErrorCode.INVALID_GROUP_ID)])
        heartbeat = Heartbeat(
            group_id=request.group_id,
            member_id=request.member_id,
            generation=request.generation_id,
            instance_id=request.group_instance_id if caller.version >= _HEARTBEAT_INSTANCE_ID_FROM else None,
        )
        return shard.classic.heartbeat(heartbeat, caller.token, moment)

    @staticmethod
    def pack(reply: ErrorCode, version: int) -> bytes:
        """Packed by hand, because it is the most frequent response of coordinators."""
        count_error(reply)
        if version == 0:
            return _CODE.pack(reply)
        if version <= _HEARTBEAT_INSTANCE_ID_FROM:
            return _THROTTLE_AND_CODE.pack(0, reply)
        return _WITH_TAGGED_FIELDS.pack(0, reply, 0)

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        """As in Apache Kafka, heartbeats succeed while groups are loaded: sessions begin after the load."""
        return HeartbeatApi.pack(ErrorCode.NONE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code, version)


_MANY_MEMBERS_FROM = 3
_LEAVE_REASON_FROM = 5


def _leaving_members(request: Any, version: int) -> tuple[LeavingMember, ...]:
    if version < _MANY_MEMBERS_FROM:
        return (LeavingMember(member_id=request.member_id),)
    return tuple(
        LeavingMember(
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            reason=each.reason if version >= _LEAVE_REASON_FROM else None,
        )
        for each in request.members
    )


class LeaveGroupApi:
    """LeaveGroup, versions 0 to 5: members leave; from version 3 on several at once, static members by instance id."""

    @staticmethod
    def handle(request: Any, caller: Caller, shard: GroupShard, moment: Moment) -> Outcome[GroupRecord]:
        if not request.group_id:
            return Outcome(replies=[(caller.token, Left(code=ErrorCode.INVALID_GROUP_ID))])
        leave = LeaveGroup(group_id=request.group_id, members=_leaving_members(request, caller.version))
        return shard.classic.leave(leave, caller.token, moment)

    @staticmethod
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

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return LeaveGroupApi.pack(Left(code=code), version)


_PATTERNS_FROM = 1


def _owned(rows: Iterable[Any] | None) -> Assignment | None:
    return None if rows is None else {row.topic_id: frozenset(row.partitions) for row in rows}


class ConsumerGroupHeartbeatApi:
    """ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848).

    A member sends its subscription and partitions, and gets its assignment.
    """

    @staticmethod
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

    @staticmethod
    def pack(reply: ConsumerHeartbeatReply, version: int) -> bytes:
        return pack_consumer_heartbeat(
            reply.code,
            reply.message,
            member_id=reply.member_id,
            member_epoch=reply.member_epoch,
            heartbeat_interval_ms=reply.heartbeat_interval_ms,
            assignment=reply.assignment,
        )

    @staticmethod
    def reject(request: Any, version: int, code: ErrorCode) -> bytes:
        return ConsumerGroupHeartbeatApi.pack(ConsumerHeartbeatReply(code=code), version)
