"""What do the requests of a member cause in a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup?

A new client gets a member id; from version 4 on it must join again with this id to become a member (KIP-394). The group
rebalances when an existing member changes its protocols, or when the leader rejoins. Any other existing member has lost
the last response and gets it again. Static members without an id are in `static_members.py`.

In a completing rebalance all syncs wait for the leader's. The leader's assignment is written with the generation, and
members get it when the record is committed. If the write fails they must rejoin.
"""

from collections.abc import Mapping

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import NO_ASSIGNMENT, ClassicMember
from kafkad.core.groups.classic.messages import (
    NO_MEMBER_ID,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    Left,
    LeftMember,
    Synced,
    SyncGroup,
)
from kafkad.core.groups.classic.rebalance import (
    complete_if_all_joined,
    prepare_rebalance,
    rebalance_or_complete,
    reject_syncs,
)
from kafkad.core.groups.classic.records import group_record
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.static_members import rejoin_static_member
from kafkad.core.groups.classic.step import Step, first_of, joined
from kafkad.core.groups.records import GroupRecord
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


def sync(group: ClassicGroup, request: SyncGroup, token: int, step: Step) -> None:
    """Raises `KafkaError` if the client is not a member of this generation."""
    _check_sync(group, request)
    member = group.members[request.member_id]
    match group.state:
        case ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        case ClassicState.COMPLETING_REBALANCE:
            # A pending sync of an older connection gets a retriable error.
            step.respond_to_sync(member, Synced(code=ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync_token = token
            _remove_pending_sync(group, member.member_id, step)
            if group.leader == member.member_id:
                _write_assignment(group, request.assignments, step)
        case _:
            _remove_pending_sync(group, member.member_id, step)
            step.reply(token, _assigned(group, member.assignment))


def _check_sync(group: ClassicGroup, request: SyncGroup) -> None:
    if group.state is ClassicState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.instance_id)
    if request.generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol, group.protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _differs(requested: str | None, actual: str | None) -> bool:
    return requested is not None and actual is not None and requested != actual


def _remove_pending_sync(group: ClassicGroup, member_id: str, step: Step) -> None:
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        step.cancel_sync_timer(group)


def _assigned(group: ClassicGroup, assignment: bytes) -> Synced:
    return Synced(protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment)


def _write_assignment(group: ClassicGroup, assignments: Mapping[str, bytes], step: Step) -> None:
    config, generation = step.config, group.generation

    def written(code: ErrorCode, moment: Moment) -> Outcome[GroupRecord]:
        after = Step(config, moment)
        if group.state is ClassicState.COMPLETING_REBALANCE and group.generation == generation:
            if code is ErrorCode.NONE:
                _propagate_assignment(group, assignments, after)
            else:
                reject_syncs(group, code, after)
                prepare_rebalance(group, f"the assignment could not be written ({code.name})", after)
        # Otherwise a member joined or left meanwhile, and the assignment is outdated.
        return after.outcome

    step.outcome.records.append(group_record(group, assignments))
    step.outcome.after = written


def _propagate_assignment(group: ClassicGroup, assignments: Mapping[str, bytes], step: Step) -> None:
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
        if step.respond_to_sync(member, _assigned(group, member.assignment)):
            step.restart_session(group, member)
    group.move_to(ClassicState.STABLE, step.moment.wall_ms)
    step.outcome.rebalances_ms.append(step.moment.wall_ms - group.rebalance_since_ms)


def heartbeat(group: ClassicGroup, request: Heartbeat, token: int, step: Step) -> None:
    """Restart the session; REBALANCE_IN_PROGRESS makes the member rejoin. Raises `KafkaError`."""
    if group.state is ClassicState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.instance_id)
    if request.generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    step.restart_session(group, group.members[request.member_id])
    rejoin = group.state is ClassicState.PREPARING_REBALANCE
    step.reply(token, ErrorCode.REBALANCE_IN_PROGRESS if rejoin else ErrorCode.NONE)


def leave(group: ClassicGroup, request: LeaveGroup, token: int, step: Step) -> None:
    """Each member gets its own result; the group rebalances once for all."""
    if group.state is ClassicState.DEAD:
        step.reply(token, Left(code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    results = []
    left = []
    for leaving in request.members:
        code = ErrorCode.NONE
        try:
            left.append(f"{logged(_leave_one(group, leaving, step))} ({leaving.logged_reason})")
        except KafkaError as error:
            code = error.code
        results.append(LeftMember(member_id=leaving.member_id, instance_id=leaving.instance_id, code=code))
    step.reply(token, Left(members=tuple(results)))
    if not left:
        return
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        prepare_rebalance(group, f"members left: {first_of(left)}", step)
    else:
        complete_if_all_joined(group, step)


def _leave_one(group: ClassicGroup, leaving: LeavingMember, step: Step) -> str:
    member_id = leaving.member_id
    if member_id == NO_MEMBER_ID:
        found = None if leaving.instance_id is None else group.static_member_id(leaving.instance_id)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member_id = found
    elif member_id not in group.pending_join:
        group.check_member(member_id, leaving.instance_id)
    step.remove(group, member_id)
    return member_id
