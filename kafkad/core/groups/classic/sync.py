"""When does a member get its assignment?

In a completing rebalance all syncs wait for the leader's. The leader's assignment is written with the generation, and
members get it when the record is committed. If the write fails they must rejoin.
"""

from collections.abc import Mapping

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import NO_ASSIGNMENT
from kafkad.core.groups.classic.messages import Synced, SyncGroup
from kafkad.core.groups.classic.rebalance import prepare_rebalance, reject_syncs
from kafkad.core.groups.classic.records import group_record
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.step import Step
from kafkad.core.groups.records import GroupRecord


def sync(group: ClassicGroup, request: SyncGroup, token: int, step: Step) -> None:
    """Raises `KafkaError` if the client is not a member of this generation."""
    _check(group, request)
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


def _check(group: ClassicGroup, request: SyncGroup) -> None:
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
