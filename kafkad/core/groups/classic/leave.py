"""Heartbeats and leaves of classic groups."""

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.messages import NO_MEMBER_ID, Heartbeat, LeaveGroup, LeavingMember, Left, LeftMember
from kafkad.core.groups.classic.rebalance import complete_if_all_joined, prepare_rebalance
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.step import Step, first_of
from kafkad.core.quoting import logged


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
