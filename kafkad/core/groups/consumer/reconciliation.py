"""How does a member get from what it has to what it should have, without two owners of a partition at once?

KIP-848's three states. A member first gives up what is not its any more and says so; only then it goes to the new
epoch, and gets what nobody else holds. What others still hold it gets when they have given it up. What it is not
subscribed to any more it gives up at once, whatever the target says, which may be older. Pure: one step, which a
heartbeat of the member leads to.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from uuid import UUID

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.assignors import NOTHING, Assignment
from kafkad.core.groups.consumer.member import ConsumerMember, MemberState, common, places, together, without

IsHeld = Callable[[UUID, int], bool]
"""Whether anybody has the partition, or has not given it up yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a member is to get: what it should have, as of which epoch of the group."""

    epoch: int
    assignment: Assignment
    subscribed: Collection[UUID]
    """The topics that the member wants now, of those that exist."""
    is_held: IsHeld


def reconcile(
    member: ConsumerMember, target: Target, owned: Assignment | None, *, is_subscribed_anew: bool = False
) -> ConsumerMember:
    """The member after one step; itself when there is none to make.

    `owned` is what the member says that it has; None: it did not say. Raises KafkaError (FENCED_MEMBER_EPOCH).
    """
    match member.state:
        case MemberState.STABLE:
            is_there = member.epoch == target.epoch
        case MemberState.UNREVOKED_PARTITIONS:
            is_there = _holds(owned, member.pending_revocation)
        case MemberState.UNRELEASED_PARTITIONS:
            is_there = False
        case _:
            # Written by a newer broker: only a member that has nothing can go on from here.
            if owned is None or owned:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return _next(member, target.epoch, target, owned)
    if not is_there:
        return _next(member, member.epoch, target, owned)
    return _unsubscribed(member, target.subscribed, owned) if is_subscribed_anew else member


def _unsubscribed(member: ConsumerMember, subscribed: Collection[UUID], owned: Assignment | None) -> ConsumerMember:
    gives_up = {topic: indexes for topic, indexes in member.assigned.items() if topic not in subscribed}
    if not gives_up:
        return member
    keeps = without(member.assigned, gives_up)
    pending = together(member.pending_revocation, gives_up)
    if _holds(owned, pending):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, keeps, pending)
    return _moved(member, member.state, member.epoch, keeps, member.pending_revocation)


def _next(member: ConsumerMember, epoch: int, target: Target, owned: Assignment | None) -> ConsumerMember:
    wanted = {topic: indexes for topic, indexes in target.assignment.items() if topic in target.subscribed}
    keeps = common(member.assigned, wanted)
    gives_up = without(member.assigned, keeps)
    if gives_up and _holds(owned, gives_up):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, epoch, keeps, gives_up)
    missing = without(wanted, keeps)
    own = member.pending_revocation
    held = {
        topic: frozenset(
            index for index in indexes if target.is_held(topic, index) and index not in own.get(topic, frozenset())
        )
        for topic, indexes in missing.items()
    }
    state = MemberState.UNRELEASED_PARTITIONS if any(held.values()) else MemberState.STABLE
    return _moved(member, state, target.epoch, together(keeps, without(missing, held)), NOTHING)


def _holds(owned: Assignment | None, asked_back: Assignment) -> bool:
    """Whether the member has not given everything up; one that does not say may have all of it."""
    return owned is None or bool(common(owned, asked_back))


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Assignment, pending: Assignment
) -> ConsumerMember:
    # What was on its way out and comes back is had anew.
    had = {*places(member.assigned), *places(pending)}
    return replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        pending_revocation=pending,
        since={place: member.since.get(place, epoch) if place in had else epoch for place in places(assigned, pending)},
    )
