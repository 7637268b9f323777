"""How a member gets from its present assignment to its target without two owners of a partition at once.

KIP-848's three states. A member first revokes what it loses and confirms it. Only then it moves to the new epoch, and
gets the partitions that are free. It gets the others when their present owners have revoked them. Partitions of topics
that it is no longer subscribed to are revoked at once, whatever the target says, which may be older. Pure: one step,
caused by a heartbeat of the member.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from uuid import UUID

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.assignors import NOTHING, Assignment
from kafkad.core.groups.consumer.member import ConsumerMember, MemberState, common, places, together, without

IsOwned = Callable[[UUID, int], bool]
"""Whether a member has the partition, or has not revoked it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a member: its assignment, as of which epoch of the group."""

    epoch: int
    assignment: Assignment
    subscribed: Collection[UUID]
    """The topics that the member is subscribed to now, if they exist."""
    is_owned: IsOwned


def reconcile(
    member: ConsumerMember, target: Target, owned: Assignment | None, *, is_subscribed_anew: bool = False
) -> ConsumerMember:
    """The member after one step; the same object when nothing changes.

    `owned` is what the member reports to have; None: it did not say. Raises KafkaError (FENCED_MEMBER_EPOCH).
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
    is_abandoned = {topic: indexes for topic, indexes in member.assigned.items() if topic not in subscribed}
    if not is_abandoned:
        return member
    keeps = without(member.assigned, is_abandoned)
    pending = together(member.pending_revocation, is_abandoned)
    if _holds(owned, pending):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, keeps, pending)
    return _moved(member, member.state, member.epoch, keeps, member.pending_revocation)


def _next(member: ConsumerMember, epoch: int, target: Target, owned: Assignment | None) -> ConsumerMember:
    wanted = {topic: indexes for topic, indexes in target.assignment.items() if topic in target.subscribed}
    keeps = common(member.assigned, wanted)
    is_abandoned = without(member.assigned, keeps)
    if is_abandoned and _holds(owned, is_abandoned):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, epoch, keeps, is_abandoned)
    missing = without(wanted, keeps)
    own = member.pending_revocation
    held = {
        topic: frozenset(
            index for index in indexes if target.is_owned(topic, index) and index not in own.get(topic, frozenset())
        )
        for topic, indexes in missing.items()
    }
    state = MemberState.UNRELEASED_PARTITIONS if any(held.values()) else MemberState.STABLE
    return _moved(member, state, target.epoch, together(keeps, without(missing, held)), NOTHING)


def _holds(owned: Assignment | None, asked_back: Assignment) -> bool:
    """Whether the member has partitions left to revoke; a member that does not say may have all of them."""
    return owned is None or bool(common(owned, asked_back))


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Assignment, pending: Assignment
) -> ConsumerMember:
    # A partition that was being revoked and comes back gets the new epoch.
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
