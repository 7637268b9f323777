"""A static member returns without its member id (KIP-345): does the group have to rebalance?

It takes over its old place under a new id, and a client that still uses the old id is fenced. In a stable group whose
protocol stays nothing else changes, once that is in the log; a returning leader is told to skip the assignment
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


def return_static_member(group: ClassicGroup, request: JoinGroup, token: int, new_member_id: str, step: Step) -> None:
    """The group has a member with the instance id of `request`."""
    assert request.instance_id is not None
    old_member_id = group.static_member_id(request.instance_id)
    assert old_member_id is not None
    old = group.members[old_member_id]
    leader_before = group.leader or NO_MEMBER_ID
    member = _replace(group, old, new_member_id, step)
    group.update(
        member,
        request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        join_token=token,
    )
    if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol:
        _write_new_id(_Return(group, old, member, leader_before, request.can_skip_assignment), step)
    elif group.state is ClassicState.PREPARING_REBALANCE:
        complete_if_all_joined(group, step)
    else:
        # The leader may know the old id already, or the group's protocol changes.
        reason = (
            f"static member {logged(request.instance_id)} comes back as {logged(new_member_id)}: {request.shown_reason}"
        )
        prepare_rebalance(group, reason, step)


def _replace(group: ClassicGroup, old: ClassicMember, new_member_id: str, step: Step) -> ClassicMember:
    step.respond_to_join(group, old, Joined(code=ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id))
    step.respond_to_sync(old, Synced(code=ErrorCode.FENCED_INSTANCE_ID))
    step.end_session(group, old.member_id)
    member = group.replace_static(old.member_id, new_member_id)
    step.keep_session(group, member)
    return member


class _Return:
    """A return that waits for its record. Slotted, not frozen: it refers to live objects."""

    __slots__ = ("can_skip_assignment", "group", "leader_before", "member", "old")

    def __init__(
        self,
        group: ClassicGroup,
        old: ClassicMember,
        member: ClassicMember,
        leader_before: str,
        can_skip_assignment: bool,
    ) -> None:
        self.group = group
        self.old = old
        self.member = member
        self.leader_before = leader_before
        self.can_skip_assignment = can_skip_assignment


def _write_new_id(back: _Return, step: Step) -> None:
    config = step.config

    def written(code: ErrorCode, moment: Moment) -> Outcome[GroupRecord]:
        after = Step(config, moment)
        if code is ErrorCode.NONE:
            _answer_return(back, after)
        else:
            _take_back(back, code, after)
        return after.outcome

    step.outcome.records.append(group_record(back.group))
    step.outcome.after = written


def _answer_return(back: _Return, step: Step) -> None:
    group, member = back.group, back.member
    if group.state is not ClassicState.STABLE:
        # A rebalance began meanwhile: the join waits for it like the others, or was answered by it.
        return
    if back.can_skip_assignment:
        leads = group.leader == member.member_id
        reply = joined(group, member.member_id, with_members=leads, skip_assignment=leads)
    else:
        # Older clients would assign anew if they were told that they lead: they are told the old id as the leader.
        told = joined(group, member.member_id, with_members=False)
        reply = Joined(
            member_id=told.member_id,
            generation=told.generation,
            protocol_type=told.protocol_type,
            protocol=told.protocol,
            leader=back.leader_before,
        )
    step.respond_to_join(group, member, reply)


def _take_back(back: _Return, code: ErrorCode, step: Step) -> None:
    """The old id is valid again, unless the static member has returned once more since."""
    group, member, old = back.group, back.member, back.old
    if group.members.get(member.member_id) is not member:
        return
    step.respond_to_join(group, member, Joined(code=code))
    step.end_session(group, member.member_id)
    group.update(
        member,
        # Members that joined meanwhile may have no protocol in common with the old ones.
        old.protocols if group.others_support(member, old.protocols) else member.protocols,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        session_timeout_ms=old.session_timeout_ms,
        join_token=None,
    )
    step.keep_session(group, group.replace_static(member.member_id, old.member_id))
