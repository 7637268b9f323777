"""When does a classic group rebalance, and when does its next generation begin?

A rebalance ends when all known members have joined, or after the longest rebalance timeout among them. The initial
rebalance of an empty group waits for its delay instead, and longer while new members come. Members that have not joined
by then are removed. Static members are not: they may come back. Then the members have the same time again to send
SyncGroup.
"""

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import NO_ASSIGNMENT, ClassicMember
from kafkad.core.groups.classic.messages import Synced
from kafkad.core.groups.classic.records import group_record
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.step import Step, first_names, joined
from kafkad.core.quoting import logged

_GENERATION_MADE = (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)


def rebalance_or_complete(group: ClassicGroup, reason: str, step: Step) -> None:
    """Something changed: begin a rebalance. If one is going on already, complete it when nothing else is missing."""
    if group.can_rebalance:
        prepare_rebalance(group, reason, step)
    else:
        complete_if_all_joined(group, step)


def prepare_rebalance(group: ClassicGroup, reason: str, step: Step) -> None:
    """Members have to rejoin: the answers to their syncs and heartbeats say so."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, step)
    group.pending_sync.clear()
    step.end_wait_for_syncs(group)
    before = group.state
    if before is not ClassicState.COMPLETING_REBALANCE:
        group.rebalance_since_ms = step.moment.wall_ms
    group.move_to(ClassicState.PREPARING_REBALANCE, step.moment.wall_ms)
    step.tell(
        f"group {logged(group.group_id)}: rebalance of {len(group.members)} member(s), "
        f"generation {group.generation}, state {before.value} before: {reason}"
    )
    if before is ClassicState.EMPTY:
        group.delay_ms = step.config.initial_rebalance_delay_ms
        group.more_delay_ms = max(group.rebalance_timeout_ms - group.delay_ms, 0)
        step.wait_for_joins(group, group.delay_ms)
    elif group.have_all_joined:
        complete_join(group, step)
    else:
        step.wait_for_joins(group, group.rebalance_timeout_ms)


def complete_if_all_joined(group: ClassicGroup, step: Step) -> None:
    """The initial rebalance always waits for its delay."""
    if group.state is ClassicState.PREPARING_REBALANCE and not group.is_initial_rebalance and group.have_all_joined:
        complete_join(group, step)


def join_wait_ended(group: ClassicGroup, step: Step) -> None:
    """The time to join is over."""
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return
    if group.is_initial_rebalance and group.new_member_added and group.more_delay_ms:
        group.new_member_added = False
        delay_ms = min(step.config.initial_rebalance_delay_ms, group.more_delay_ms)
        group.more_delay_ms = max(group.more_delay_ms - group.delay_ms, 0)
        group.delay_ms = delay_ms
        step.wait_for_joins(group, delay_ms)
    else:
        complete_join(group, step)


def complete_join(group: ClassicGroup, step: Step) -> None:
    """Begin the next generation with the members that have joined."""
    step.end_wait_for_joins(group)
    for member in [each for each in group.not_rejoined() if not each.is_static]:
        step.remove(group, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # Only static members are left and none has joined: their sessions decide when they are removed.
        step.wait_for_joins(group, group.rebalance_timeout_ms)
        return
    group.next_generation(step.moment.wall_ms)
    group.new_member_added = False
    if not group.members:
        step.tell(f"group {logged(group.group_id)}: empty since generation {group.generation}")
        step.outcome.records.append(group_record(group))
        return
    for member in group.members.values():
        step.respond_to_join(
            group, member, joined(group, member.member_id, with_members=member.member_id == group.leader)
        )
        step.keep_session(group, member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    step.wait_for_syncs(group)


def sync_wait_ended(group: ClassicGroup, step: Step) -> None:
    """Members that joined and did not send SyncGroup in time are removed."""
    if group.state not in _GENERATION_MADE or not group.pending_sync:
        return
    silent = sorted(group.pending_sync)
    for member_id in silent:
        step.remove(group, member_id)
    prepare_rebalance(group, f"no sync within the rebalance timeout from {first_names(silent)}", step)


def session_ended(group: ClassicGroup, member_id: str, step: Step) -> None:
    """A member or a pending member id sent nothing for its session timeout."""
    if member_id in group.pending_join:
        step.remove(group, member_id)
        complete_without_delay(group, step)
        return
    member = group.members.get(member_id)
    if member is not None and not member.keeps_session:
        remove_member(group, member, f"session of member {logged(member_id)} timed out", step)


def remove_member(group: ClassicGroup, member: ClassicMember, reason: str, step: Step) -> None:
    step.remove(group, member.member_id)
    if group.state in _GENERATION_MADE:
        prepare_rebalance(group, reason, step)
    else:
        complete_without_delay(group, step)


def complete_without_delay(group: ClassicGroup, step: Step) -> None:
    """The rebalance may have waited only for the removed member, also in the initial rebalance."""
    if group.state is ClassicState.PREPARING_REBALANCE and group.have_all_joined:
        complete_join(group, step)


def refuse_syncs(group: ClassicGroup, code: ErrorCode, step: Step) -> None:
    """The assignment of this generation will not come."""
    for member in group.members.values():
        member.assignment = NO_ASSIGNMENT
        if step.respond_to_sync(member, Synced(code=code)):
            step.keep_session(group, member)


def loaded_over_capacity(group: ClassicGroup, step: Step) -> bool:
    """group.max.size was lowered. A rebalance lets members commit before some of them are turned away."""
    if len(group.members) <= step.config.max_size:
        return False
    prepare_rebalance(
        group, f"{len(group.members)} members are more than group.max.size={step.config.max_size} allows", step
    )
    return True
