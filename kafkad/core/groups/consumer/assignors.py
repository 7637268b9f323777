"""Who reads which partition of a consumer group whose broker decides that? The rules, and what an assignor may do.

For groups of the consumer protocol (KIP-848): `range` and `uniform` are Kafka's. An assignor sees the members
with what they are assigned now, and answers what each should have; how members get from the one to the other
without two owners at once is not its business. `assign` holds every assignor to one owner for each partition.
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
    """A way to divide partitions, chosen by its name: by members, or else the first of `group.consumer.assignors`."""

    @property
    def name(self) -> str: ...

    def assign(
        self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
    ) -> Mapping[str, Assignment]:
        """The partitions of each member. `members` by id, at least one; `partitions` counts those of each topic.

        Members that are left out get nothing. Must be a function of what it is given: it is called again after
        a restart, and has to keep what can be kept. If it raises or gives what may not be given the group stays
        as it is, and the member whose heartbeat asked for it gets UNKNOWN_SERVER_ERROR.
        """


class IllegalAssignment(Exception):
    """An assignor failed, gave a partition twice, or to somebody who did not ask for it: the assignor is broken."""


def assign(
    assignor: GroupAssignor, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """What `assignor` decides, checked; raises IllegalAssignment, whatever it does. Every member has an entry."""
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
    """In values of our own: whoever made these may have made them of anything, and may change them later."""
    return {
        member_id: {topic: frozenset(map(index_of, indexes)) for topic, indexes in assignment.items()}
        for member_id, assignment in decided.items()
    }


def _place(error: Exception) -> str:
    """Where it was raised, as nobody sees its traceback."""
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
    """A run of neighbouring partitions of each topic for each of its subscribers, the first ones one more.

    Static members come first, in the order of their instance ids, the others in that of their ids: with the same
    topics and counts, everybody has the same partitions of each topic, as joins of topics need it.
    """
    ordered = sorted(members.values(), key=lambda each: (each.instance_id is None, each.instance_id or each.member_id))
    decided: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    different = {member.topics for member in ordered}
    for topic in frozenset().union(*different):
        # Mostly all have the same topics: thousands of topics times thousands of members need not be looked at.
        subscribers = ordered if len(different) == 1 else [member for member in ordered if topic in member.topics]
        least, one_more = divmod(partitions[topic], len(subscribers))
        start = 0
        for number, member in enumerate(subscribers):
            end = start + least + (number < one_more)
            if start < end:
                decided[member.member_id][topic] = frozenset(range(start, end))
            start = end
    return dict(decided)
