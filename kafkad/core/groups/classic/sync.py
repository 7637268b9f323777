"""When does a member get its assignment?

In a completing rebalance all syncs wait for the leader's. What the leader sends is written with the generation, and
members get it when the record is safe in the log. If it can't be written they have to rejoin.
"""

from collections.abc import Mapping

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import NO_ASSIGNMENT
from kafkad.core.groups.classic.messages import Synced, SyncGroup
from kafkad.core.groups.classic.rebalance import prepare_rebalance, refuse_syncs
from kafkad.core.groups.classic.records import group_record
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.step import Step
from kafkad.core.groups.records import GroupRecord


def sync(group: ClassicGroup, request: SyncGroup, token: int, step: Step) -> None:
    """Raises KafkaError when the client is not a member of this generation."""
    _check(group, request)
    member = group.members[request.member_id]
    match group.state:
        case ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        case ClassicState.COMPLETING_REBALANCE:
            # A sync that still waits on an older connection is told to retry.
            step.respond_to_sync(member, Synced(code=ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync_token = token
            _has_synced(group, member.member_id, step)
            if group.leader == member.member_id:
                _write_assignment(group, request.assignments, step)
        case _:
            _has_synced(group, member.member_id, step)
            step.reply(token, _assigned(group, member.assignment))


def _check(group: ClassicGroup, request: SyncGroup) -> None:
    if group.state is ClassicState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.instance_id)
    if request.generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol, group.protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _differ(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def _has_synced(group: ClassicGroup, member_id: str, step: Step) -> None:
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        step.end_wait_for_syncs(group)


def _assigned(group: ClassicGroup, assignment: bytes) -> Synced:
    return Synced(protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment)


def _write_assignment(group: ClassicGroup, assignments: Mapping[str, bytes], step: Step) -> None:
    config, generation = step.config, group.generation

    def written(code: ErrorCode, moment: Moment) -> Outcome[GroupRecord]:
        after = Step(config, moment)
        if group.state is ClassicState.COMPLETING_REBALANCE and group.generation == generation:
            if code is ErrorCode.NONE:
                _hand_out(group, assignments, after)
            else:
                refuse_syncs(group, code, after)
                prepare_rebalance(group, f"the assignment could not be written ({code.name})", after)
        # Otherwise a member came or left meanwhile, and the assignment is outdated.
        return after.outcome

    step.outcome.records.append(group_record(group, assignments))
    step.outcome.after = written


def _hand_out(group: ClassicGroup, assignments: Mapping[str, bytes], step: Step) -> None:
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
        if step.respond_to_sync(member, _assigned(group, member.assignment)):
            step.keep_session(group, member)
    group.move_to(ClassicState.STABLE, step.moment.wall_ms)
    step.outcome.rebalances_ms.append(step.moment.wall_ms - group.rebalance_since_ms)
