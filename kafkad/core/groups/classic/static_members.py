"""A static member rejoins without its member id (KIP-345): must the group rebalance?

The member gets a new id with the state of the old one, and clients with the old id are fenced. In a stable group with
an unchanged protocol nothing else changes once the new id is in the log; a leader is told to skip the assignment
(KIP-814).
"""

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import ClassicMember
from kafkad.core.groups.classic.messages import NO_MEMBER_ID, Joined, JoinGroup, Synced
from kafkad.core.groups.classic.rebalance import complete_if_all_joined, prepare_rebalance
from kafkad.core.groups.classic.records import group_record
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.step import Step, joined
from kafkad.core.groups.records import GroupRecord
from kafkad.core.quoting import logged


def rejoin_static_member(group: ClassicGroup, request: JoinGroup, token: int, new_member_id: str, step: Step) -> None:
    """The group must have a member with the instance id of `request`."""
    assert request.instance_id is not None
    old_member_id = group.static_member_id(request.instance_id)
    assert old_member_id is not None
    old = group.members[old_member_id]
    previous_leader = group.leader or NO_MEMBER_ID
    member = _replace(group, old, new_member_id, step)
    group.update(
        member,
        request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        join_token=token,
    )
    if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol:
        _write_new_id(_Rejoin(group, old, member, previous_leader, request.can_skip_assignment), step)
    elif group.state is ClassicState.PREPARING_REBALANCE:
        complete_if_all_joined(group, step)
    else:
        # The leader may have received the old id, or the group's protocol changes.
        reason = (
            f"static member {logged(request.instance_id)} rejoins as {logged(new_member_id)}: {request.logged_reason}"
        )
        prepare_rebalance(group, reason, step)


def _replace(group: ClassicGroup, old: ClassicMember, new_member_id: str, step: Step) -> ClassicMember:
    step.respond_to_join(group, old, Joined(code=ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id))
    step.respond_to_sync(old, Synced(code=ErrorCode.FENCED_INSTANCE_ID))
    step.cancel_session(group, old.member_id)
    member = group.replace_static(old.member_id, new_member_id)
    step.restart_session(group, member)
    return member


class _Rejoin:
    """A rejoin that waits for its record. Slotted, not frozen: it refers to live objects."""

    __slots__ = ("can_skip_assignment", "group", "member", "old", "previous_leader")

    def __init__(
        self,
        group: ClassicGroup,
        old: ClassicMember,
        member: ClassicMember,
        previous_leader: str,
        can_skip_assignment: bool,
    ) -> None:
        self.group = group
        self.old = old
        self.member = member
        self.previous_leader = previous_leader
        self.can_skip_assignment = can_skip_assignment


def _write_new_id(rejoin: _Rejoin, step: Step) -> None:
    config = step.config

    def written(code: ErrorCode, moment: Moment) -> Outcome[GroupRecord]:
        after = Step(config, moment)
        if code is ErrorCode.NONE:
            _reply_to_rejoin(rejoin, after)
        else:
            _restore_old_id(rejoin, code, after)
        return after.outcome

    step.outcome.records.append(group_record(rejoin.group))
    step.outcome.after = written


def _reply_to_rejoin(rejoin: _Rejoin, step: Step) -> None:
    group, member = rejoin.group, rejoin.member
    if group.state is not ClassicState.STABLE:
        # A rebalance started meanwhile: the join waits for it, or has its response already.
        return
    if rejoin.can_skip_assignment:
        is_leader = group.leader == member.member_id
        reply = joined(group, member.member_id, with_members=is_leader, skip_assignment=is_leader)
    else:
        # Older clients would compute an assignment as leaders, so they get the previous id as the leader.
        generation = joined(group, member.member_id, with_members=False)
        reply = Joined(
            member_id=generation.member_id,
            generation=generation.generation,
            protocol_type=generation.protocol_type,
            protocol=generation.protocol,
            leader=rejoin.previous_leader,
        )
    step.respond_to_join(group, member, reply)


def _restore_old_id(rejoin: _Rejoin, code: ErrorCode, step: Step) -> None:
    """Restore the old id, unless the static member has rejoined again meanwhile."""
    group, member, old = rejoin.group, rejoin.member, rejoin.old
    if group.members.get(member.member_id) is not member:
        return
    step.respond_to_join(group, member, Joined(code=code))
    step.cancel_session(group, member.member_id)
    group.update(
        member,
        # Members that joined meanwhile may have no protocol in common with the old ones.
        old.protocols if group.others_support(member, old.protocols) else member.protocols,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        session_timeout_ms=old.session_timeout_ms,
        join_token=None,
    )
    step.restart_session(group, group.replace_static(member.member_id, old.member_id))
