"""Assignors: they decide which member of a consumer group reads which partition, when the broker assigns.

Rules for groups of the consumer protocol (KIP-848); `range` and `uniform` are Kafka's. An assignor sees the members
with their present assignments and returns the target assignment. How members get from one to the other without two
owners of a partition at once is decided in `reconciliation.py`. `assign` checks that no assignor gives a partition to
two members.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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
    given: dict[int, set[int]] = {}
    for member_id, assignment in decided.items():
        for topic, indexes in assignment.items():
            _check(assignor.name, members.get(member_id), member_id, topic, indexes, partitions)
            earlier = given.setdefault(topic.int, set())
            if not earlier.isdisjoint(indexes):
                _refuse_second(assignor.name, decided, topic, min(earlier & indexes))
            earlier |= indexes
    return {member_id: _without_empty(decided.get(member_id, NOTHING)) for member_id in members}


def _plain(decided: Mapping[str, Assignment]) -> dict[str, dict[UUID, frozenset[int]]]:
    """A copy in our own types: a plugin may have returned any types, and may change the objects later."""
    return {
        member_id: {topic: frozenset(map(index_of, indexes)) for topic, indexes in assignment.items()}
        for member_id, assignment in decided.items()
    }


def _refuse_second(name: str, decided: Mapping[str, Assignment], topic: UUID, index: int) -> None:
    first, second, *_ = [member_id for member_id, assignment in decided.items() if index in assignment.get(topic, ())]
    raise IllegalAssignment(f"assignor {name!r} gave partition {index} of {topic} to {first} and {second}")


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
    indexes: frozenset[int],
    partitions: Mapping[UUID, int],
) -> None:
    problem = None
    if member is None:
        problem = f"to {member_id!r}, who is no member"
    elif topic not in member.topics:
        problem = f"to {member_id!r}, who is not subscribed to it"
    elif indexes and not 0 <= min(indexes) <= max(indexes) < partitions.get(topic, 0):
        problem = f"to {member_id!r} beyond its {partitions.get(topic, 0)} partitions"
    if problem is not None:
        raise IllegalAssignment(f"assignor {name!r} gave topic {topic} {problem}")


def _without_empty(assignment: Assignment) -> Assignment:
    return {topic: frozenset(indexes) for topic, indexes in assignment.items() if indexes}


def as_number(topic: UUID) -> int:
    """The order is the same: a UUID takes long wherever it is hashed or compared."""
    return topic.int


def subscribers_of(members: Sequence[AssigningMember]) -> dict[int, list[int]]:
    """The positions in `members` of the subscribers of each topic, which is named by its number.

    Topics with the same subscribers share one list: that avoids thousands of topics times thousands of members.
    """
    positions: dict[frozenset[UUID], list[int]] = {}
    for position, member in enumerate(members):
        positions.setdefault(member.topics, []).append(position)
    sets: dict[int, list[int]] = {}  # the subscriptions that each topic is in
    for number, topics in enumerate(positions):
        for topic in topics:
            sets.setdefault(topic.int, []).append(number)
    having = list(positions.values())
    lists: dict[tuple[int, ...], list[int]] = {}
    subscribers: dict[int, list[int]] = {}
    for topic_number, numbers in sets.items():
        key = tuple(numbers)
        if key not in lists:
            lists[key] = having[key[0]] if len(key) == 1 else sorted(chain.from_iterable(having[each] for each in key))
        subscribers[topic_number] = lists[key]
    return subscribers


def range_assignment(members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """A run of neighbouring partitions of each topic for each subscriber; the first ones get one more.

    Static members come first, in the order of their instance ids, then the others in the order of theirs. So with equal
    subscriptions and partition counts a member has the same partitions of each topic, as joins of topics need it.
    """
    ordered = sorted(members.values(), key=lambda each: (each.instance_id is None, each.instance_id or each.member_id))
    decided: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    counts = {topic.int: count for topic, count in partitions.items()}
    for number, subscribers in subscribers_of(ordered).items():
        topic = UUID(int=number)
        least, one_more = divmod(counts[number], len(subscribers))
        start = 0
        for turn, subscriber in enumerate(subscribers):
            end = start + least + (turn < one_more)
            if start < end:
                decided[ordered[subscriber].member_id][topic] = frozenset(range(start, end))
            start = end
    return dict(decided)
