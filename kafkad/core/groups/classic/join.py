"""May this client join the classic group, under which member id, and what does its join cause?

A new client gets a member id; from version 4 on it must join again with this id to become a member (KIP-394). The group
rebalances when an existing member changes its protocols, or when the leader rejoins. Any other existing member has lost
the last response and gets it again. Static members without an id are in `static_members.py`.
"""

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import ClassicMember
from kafkad.core.groups.classic.messages import NO_MEMBER_ID, Joined, JoinGroup
from kafkad.core.groups.classic.rebalance import rebalance_or_complete
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.static_members import rejoin_static_member
from kafkad.core.groups.classic.step import Step, joined
from kafkad.core.quoting import logged, quoted

MAX_METADATA_BYTES = 16 << 20
"""Limit of the metadata of all members of a group. The group's record must fit into a batch of `__consumer_offsets`, so
a group with much more can't become stable. The leader would get all of it, and the worker would block meanwhile."""


def join(group: ClassicGroup, request: JoinGroup, token: int, new_member_id: str, step: Step) -> None:
    """`new_member_id` is the id for a client without an id."""
    if not (_has_space(group, request.member_id, step.config.max_size) and _has_space_for_metadata(group, request)):
        step.remove(group, request.member_id)
        step.reply(token, Joined(code=ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif group.state is ClassicState.DEAD:
        step.reply(token, Joined(code=ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id=request.member_id))
    elif not group.supports(request.protocol_type, request.protocol_names):
        step.reply(token, Joined(code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id))
    elif request.member_id == NO_MEMBER_ID:
        _join_without_id(group, request, token, new_member_id, step)
    elif request.member_id in group.pending_join:
        _join_with_pending_id(group, request, token, step)
    else:
        _join_again(group, request, token, step)


def _has_space(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    if group.state in (ClassicState.EMPTY, ClassicState.DEAD):
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        # Only members that have rejoined count: of too many members, the last ones are rejected.
        member = group.members.get(member_id)
        return (member is not None and member.join_token is not None) or group.awaiting_join < max_size
    return member_id in group.members or len(group.members) < max_size


def _has_space_for_metadata(group: ClassicGroup, request: JoinGroup) -> bool:
    member = group.members.get(request.member_id)
    current = sum(len(metadata) for _, metadata in member.protocols) if member is not None else 0
    requested = sum(len(metadata) for _, metadata in request.protocols)
    return group.metadata_bytes - current + requested <= MAX_METADATA_BYTES


def _join_without_id(group: ClassicGroup, request: JoinGroup, token: int, new_member_id: str, step: Step) -> None:
    if request.instance_id is not None and group.static_member_id(request.instance_id) is not None:
        rejoin_static_member(group, request, token, new_member_id, step)
    elif request.instance_id is None and request.requires_known_member_id:
        group.pending_join.add(new_member_id)
        step.start_session(group, new_member_id, request.session_timeout_ms)
        step.reply(token, Joined(code=ErrorCode.MEMBER_ID_REQUIRED, member_id=new_member_id))
    else:
        _add_member(group, request, token, new_member_id, step)


def _join_with_pending_id(group: ClassicGroup, request: JoinGroup, token: int, step: Step) -> None:
    if request.instance_id is not None:
        text = f"{quoted(request.member_id)} is not the member id of a static member"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    _add_member(group, request, token, request.member_id, step)


def _add_member(group: ClassicGroup, request: JoinGroup, token: int, member_id: str, step: Step) -> None:
    member = ClassicMember(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
    )
    member.is_new = True
    if group.is_initial_rebalance:
        group.new_member_added = True
    group.add(member, request.protocol_type, token)
    step.start_session(group, member_id, step.config.new_member_join_timeout_ms)
    static = f" (static, {logged(request.instance_id)})" if request.instance_id is not None else ""
    rebalance_or_complete(group, f"new member {logged(member_id)}{static} joins: {request.logged_reason}", step)


def _join_again(group: ClassicGroup, request: JoinGroup, token: int, step: Step) -> None:
    try:
        group.check_member(request.member_id, request.instance_id)
    except KafkaError as error:
        step.reply(token, Joined(code=error.code, member_id=request.member_id))
        return
    member = group.members[request.member_id]
    is_leader = group.leader == member.member_id
    has_changed = member.protocols != request.protocols
    match group.state:
        case ClassicState.PREPARING_REBALANCE:
            _rejoin(group, member, request, token, "rejoins", step)
        case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE if has_changed:
            _rejoin(group, member, request, token, "rejoins with changed metadata", step)
        case ClassicState.STABLE if is_leader:
            _rejoin(group, member, request, token, "is the leader and rejoins", step)
        case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
            # The response to its last join was lost.
            step.reply(token, joined(group, member.member_id, with_members=is_leader))
        case _:
            step.reply(token, Joined(code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))


def _rejoin(group: ClassicGroup, member: ClassicMember, request: JoinGroup, token: int, event: str, step: Step) -> None:
    step.supersede_join(group, member)
    group.update(
        member,
        request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        join_token=token,
    )
    rebalance_or_complete(group, f"member {logged(member.member_id)} {event}: {request.logged_reason}", step)
