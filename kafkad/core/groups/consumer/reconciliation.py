"""How does a member change from its current to its target assignment without two owners of a partition at once?

KIP-848's three states. A member first revokes partitions and confirms it. Only then it moves to the new epoch, and gets
the free partitions. It gets the others when their current owners have revoked them. Partitions of topics without a
subscription are revoked at once, as the target may be older. Pure: one step for a heartbeat of the member.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from uuid import UUID

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.assignors import NOTHING, Assignment
from kafkad.core.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    difference,
    intersection,
    partitions_of,
    union,
)

IsOwned = Callable[[UUID, int], bool]
"""Whether a member has the partition, or is still revoking it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target assignment of a member, and the group epoch of the target."""

    epoch: int
    assignment: Assignment
    subscribed: Collection[UUID]
    """The current subscribed topics, if they exist."""
    is_owned: IsOwned


def reconcile(
    member: ConsumerMember, target: Target, owned: Assignment | None, *, has_new_subscription: bool = False
) -> ConsumerMember:
    """The member after one step; the same object if nothing changes.

    `owned` are the partitions that the member reports; None: not reported. Raises `KafkaError`
    (FENCED_MEMBER_EPOCH).
    """
    match member.state:
        case MemberState.STABLE:
            is_unchanged = member.epoch == target.epoch
        case MemberState.UNREVOKED_PARTITIONS:
            is_unchanged = _may_own(owned, member.pending_revocation)
        case MemberState.UNRELEASED_PARTITIONS:
            is_unchanged = False
        case _:
            # Written by a newer broker: only a member without partitions can continue from this state.
            if owned is None or owned:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return _next(member, target.epoch, target, owned)
    if not is_unchanged:
        return _next(member, member.epoch, target, owned)
    return _revoke_unsubscribed(member, target.subscribed, owned) if has_new_subscription else member


def _revoke_unsubscribed(
    member: ConsumerMember, subscribed: Collection[UUID], owned: Assignment | None
) -> ConsumerMember:
    revoked = {topic: indexes for topic, indexes in member.assigned.items() if topic not in subscribed}
    if not revoked:
        return member
    kept = difference(member.assigned, revoked)
    pending = union(member.pending_revocation, revoked)
    if _may_own(owned, pending):
        return _with_assignment(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, pending)
    return _with_assignment(member, member.state, member.epoch, kept, member.pending_revocation)


def _next(member: ConsumerMember, epoch: int, target: Target, owned: Assignment | None) -> ConsumerMember:
    subscribed_target = {topic: indexes for topic, indexes in target.assignment.items() if topic in target.subscribed}
    kept = intersection(member.assigned, subscribed_target)
    revoked = difference(member.assigned, kept)
    if revoked and _may_own(owned, revoked):
        return _with_assignment(member, MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoked)
    missing = difference(subscribed_target, kept)
    revoking = member.pending_revocation
    unreleased = {
        topic: frozenset(
            index
            for index in indexes
            if target.is_owned(topic, index) and index not in revoking.get(topic, frozenset())
        )
        for topic, indexes in missing.items()
    }
    state = MemberState.UNRELEASED_PARTITIONS if any(unreleased.values()) else MemberState.STABLE
    return _with_assignment(member, state, target.epoch, union(kept, difference(missing, unreleased)), NOTHING)


def _may_own(owned: Assignment | None, revoked: Assignment) -> bool:
    """Whether the member may still own revoked partitions; without a report it may own all of them."""
    return owned is None or bool(intersection(owned, revoked))


def _with_assignment(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Assignment, pending: Assignment
) -> ConsumerMember:
    # A partition that is assigned again while it is revoked gets the new epoch.
    kept = {*partitions_of(member.assigned), *partitions_of(pending)}
    return replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        pending_revocation=pending,
        assigned_epochs={
            partition: member.assigned_epochs.get(partition, epoch) if partition in kept else epoch
            for partition in partitions_of(assigned, pending)
        },
    )
