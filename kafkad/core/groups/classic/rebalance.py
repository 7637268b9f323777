"""When does a classic group rebalance, and when does its next generation start?

A rebalance ends when all members have rejoined, or after the longest of their rebalance timeouts. The initial rebalance
of an empty group waits for its delay instead, which new members extend. Then dynamic members that have not rejoined are
removed; static members may still return. Afterwards the members have the rebalance timeout again to send SyncGroup.
"""

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import NO_ASSIGNMENT, ClassicMember
from kafkad.core.groups.classic.messages import Synced
from kafkad.core.groups.classic.records import group_record
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.step import Step, first_names, joined
from kafkad.core.quoting import logged

_GENERATION_STARTED = (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)


def rebalance_or_complete(group: ClassicGroup, reason: str, step: Step) -> None:
    """Start a rebalance after a change. If one is in progress, complete it if all members have joined."""
    if group.can_rebalance:
        prepare_rebalance(group, reason, step)
    else:
        complete_if_all_joined(group, step)


def prepare_rebalance(group: ClassicGroup, reason: str, step: Step) -> None:
    """Start a rebalance: syncs and heartbeats get REBALANCE_IN_PROGRESS until the members rejoin."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        reject_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, step)
    group.pending_sync.clear()
    step.cancel_sync_timer(group)
    previous = group.state
    if previous is not ClassicState.COMPLETING_REBALANCE:
        group.rebalance_since_ms = step.moment.wall_ms
    group.move_to(ClassicState.PREPARING_REBALANCE, step.moment.wall_ms)
    step.log(
        f"group {logged(group.group_id)}: preparing rebalance of {len(group.members)} member(s) in state "
        f"{previous.value} with generation {group.generation}: {reason}"
    )
    if previous is ClassicState.EMPTY:
        group.delay_ms = step.config.initial_rebalance_delay_ms
        group.remaining_delay_ms = max(group.rebalance_timeout_ms - group.delay_ms, 0)
        step.start_join_timer(group, group.delay_ms)
    elif group.have_all_joined:
        complete_join(group, step)
    else:
        step.start_join_timer(group, group.rebalance_timeout_ms)


def complete_if_all_joined(group: ClassicGroup, step: Step) -> None:
    """The initial rebalance always waits for its delay."""
    if group.state is ClassicState.PREPARING_REBALANCE and not group.is_initial_rebalance and group.have_all_joined:
        complete_join(group, step)


def join_timer_expired(group: ClassicGroup, step: Step) -> None:
    """Complete the rebalance, or extend the initial delay if members joined meanwhile."""
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return
    if group.is_initial_rebalance and group.new_member_added and group.remaining_delay_ms:
        group.new_member_added = False
        delay_ms = min(step.config.initial_rebalance_delay_ms, group.remaining_delay_ms)
        group.remaining_delay_ms = max(group.remaining_delay_ms - group.delay_ms, 0)
        group.delay_ms = delay_ms
        step.start_join_timer(group, delay_ms)
    else:
        complete_join(group, step)


def complete_join(group: ClassicGroup, step: Step) -> None:
    """Start the next generation with the members that have joined."""
    step.cancel_join_timer(group)
    for member in [member for member in group.not_rejoined() if not member.is_static]:
        step.remove(group, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # Only static members remain and none has joined: they are removed when their sessions expire.
        step.start_join_timer(group, group.rebalance_timeout_ms)
        return
    group.next_generation(step.moment.wall_ms)
    group.new_member_added = False
    if not group.members:
        step.log(f"group {logged(group.group_id)}: empty in generation {group.generation}")
        step.outcome.records.append(group_record(group))
        return
    for member in group.members.values():
        step.respond_to_join(
            group, member, joined(group, member.member_id, with_members=member.member_id == group.leader)
        )
        step.restart_session(group, member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    step.start_sync_timer(group)


def sync_timer_expired(group: ClassicGroup, step: Step) -> None:
    """Remove the members that joined but sent no SyncGroup in time."""
    if group.state not in _GENERATION_STARTED or not group.pending_sync:
        return
    missing = sorted(group.pending_sync)
    for member_id in missing:
        step.remove(group, member_id)
    prepare_rebalance(group, f"no SyncGroup within the rebalance timeout from {first_names(missing)}", step)


def session_timer_expired(group: ClassicGroup, member_id: str, step: Step) -> None:
    """Remove a member or pending member id without requests during its session timeout."""
    if member_id in group.pending_join:
        step.remove(group, member_id)
        complete_without_delay(group, step)
        return
    member = group.members.get(member_id)
    if member is not None and not member.keeps_session:
        remove_member(group, member, f"session of member {logged(member_id)} expired", step)


def remove_member(group: ClassicGroup, member: ClassicMember, reason: str, step: Step) -> None:
    step.remove(group, member.member_id)
    if group.state in _GENERATION_STARTED:
        prepare_rebalance(group, reason, step)
    else:
        complete_without_delay(group, step)


def complete_without_delay(group: ClassicGroup, step: Step) -> None:
    """Complete a rebalance, also an initial one, that waited only for a removed member."""
    if group.state is ClassicState.PREPARING_REBALANCE and group.have_all_joined:
        complete_join(group, step)


def reject_syncs(group: ClassicGroup, code: ErrorCode, step: Step) -> None:
    """Reply an error to all pending syncs of a generation that gets no assignment."""
    for member in group.members.values():
        member.assignment = NO_ASSIGNMENT
        if step.respond_to_sync(member, Synced(code=code)):
            step.restart_session(group, member)


def check_capacity_after_loading(group: ClassicGroup, step: Step) -> bool:
    """Rebalance a group above a lowered group.max.size, so that members commit before some are rejected."""
    if len(group.members) <= step.config.max_size:
        return False
    prepare_rebalance(group, f"{len(group.members)} members exceed group.max.size={step.config.max_size}", step)
    return True
