"""Assignors: they decide which member of a consumer group reads which partition, when the broker assigns.

Rules for groups of the consumer protocol (KIP-848); `range` and `uniform` are Kafka's. An assignor sees the members
with their present assignments and returns the target assignment. How members get from one to the other without two
owners of a partition at once is decided in `reconciliation.py`. `assign` checks that no assignor gives a partition to
two members.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import index as index_of
from typing import Protocol
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; topics without a partition are left out."""
NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssigningMember:
    """One member as an assignor sees it. `topics` has only topics that exist."""

    member_id: str
    topics: frozenset[UUID]
    assigned: Assignment = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


class GroupAssignor(Protocol):
    """A named way to assign partitions. Members choose it; else it is the first of `group.consumer.assignors`."""

    @property
    def name(self) -> str: ...

    def assign(
        self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
    ) -> Mapping[str, Assignment]:
        """The partitions of each member. `members` by id, at least one; `partitions` counts those of each topic.

        Members that are left out get nothing. The result must depend on the arguments only, as it is computed again
        after a restart, and should keep what members have where possible. If this raises or returns an illegal
        assignment the group stays as it is, and the member whose heartbeat caused the call gets UNKNOWN_SERVER_ERROR.
        """


class IllegalAssignment(Exception):
    """An assignor failed, gave a partition twice, or gave it to a member that is not subscribed: the assignor is
    broken."""


def assign(
    assignor: GroupAssignor, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """The checked result of `assignor`; raises IllegalAssignment, whatever it does. Every member has an entry."""
    if not members:
        return {}
    try:
        decided = _plain(assignor.assign(members, partitions))
    except Exception as error:
        raise IllegalAssignment(f"assignor {assignor.name!r} failed{_place(error)}: {error!r}") from error
    owners: dict[tuple[UUID, int], str] = {}
    for member_id, assignment in decided.items():
        for topic, indexes in assignment.items():
            _check(assignor.name, members.get(member_id), member_id, topic, indexes, partitions)
            for index in indexes:
                other = owners.setdefault((topic, index), member_id)
                if other != member_id:
                    raise IllegalAssignment(
                        f"assignor {assignor.name!r} gave partition {index} of {topic} to {other} and {member_id}"
                    )
    return {member_id: _without_empty(decided.get(member_id, NOTHING)) for member_id in members}


def _plain(decided: Mapping[str, Assignment]) -> dict[str, dict[UUID, frozenset[int]]]:
    """A copy in our own types: a plugin may have returned any types, and may change the objects later."""
    return {
        member_id: {topic: frozenset(map(index_of, indexes)) for topic, indexes in assignment.items()}
        for member_id, assignment in decided.items()
    }


def _place(error: Exception) -> str:
    """The place where it was raised, as the traceback is not shown."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" in {trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"


def _check(
    name: str,
    member: AssigningMember | None,
    member_id: str,
    topic: UUID,
    indexes: Iterable[int],
    partitions: Mapping[UUID, int],
) -> None:
    problem = None
    if member is None:
        problem = f"to {member_id!r}, who is no member"
    elif topic not in member.topics:
        problem = f"to {member_id!r}, who is not subscribed to it"
    elif any(not 0 <= index < partitions.get(topic, 0) for index in indexes):
        problem = f"to {member_id!r} beyond its {partitions.get(topic, 0)} partitions"
    if problem is not None:
        raise IllegalAssignment(f"assignor {name!r} gave topic {topic} {problem}")


def _without_empty(assignment: Assignment) -> Assignment:
    return {topic: frozenset(indexes) for topic, indexes in assignment.items() if indexes}


def range_assignment(members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """A run of neighbouring partitions of each topic for each subscriber; the first ones get one more.

    Static members come first, in the order of their instance ids, then the others in the order of theirs. So with equal
    subscriptions and partition counts a member has the same partitions of each topic, as joins of topics need it.
    """
    ordered = sorted(members.values(), key=lambda each: (each.instance_id is None, each.instance_id or each.member_id))
    decided: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    different = {member.topics for member in ordered}
    for topic in frozenset().union(*different):
        # Usually all have the same topics: that avoids thousands of topics times thousands of members.
        subscribers = ordered if len(different) == 1 else [member for member in ordered if topic in member.topics]
        least, one_more = divmod(partitions[topic], len(subscribers))
        start = 0
        for number, member in enumerate(subscribers):
            end = start + least + (number < one_more)
            if start < end:
                decided[member.member_id][topic] = frozenset(range(start, end))
            start = end
    return dict(decided)
