"""Assignors: they decide which member of a consumer group reads which partition, on the broker.

For groups of the consumer protocol (KIP-848); `range` and `uniform` are Kafka's. An assignor gets the members with
their current assignments and returns the target assignment. `reconciliation.py` decides how members change to it
without two owners of a partition at once. `assign` checks that no assignor assigns a partition to two members.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import index as index_of
from typing import Protocol
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; topics without a partition are omitted."""
NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssigningMember:
    """A member for an assignor. `topics` has only existing topics."""

    member_id: str
    topics: frozenset[UUID]
    assigned: Assignment = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


class GroupAssignor(Protocol):
    """A named assignment strategy. Members select it; the default is the first of `group.consumer.assignors`."""

    @property
    def name(self) -> str: ...

    def assign(
        self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
    ) -> Mapping[str, Assignment]:
        """The partitions of each member. `members` by id, at least one; `partitions` has the partition counts.

        Omitted members get nothing. The result must depend on the arguments only, as it is computed again after a
        restart, and should keep current assignments where possible. If this raises or returns an illegal assignment,
        the group stays unchanged, and the member whose heartbeat caused the call gets UNKNOWN_SERVER_ERROR.
        """


class IllegalAssignment(Exception):
    """An assignor raised an exception, assigned a partition twice, or assigned it to a member without a
    subscription."""


def assign(
    assignor: GroupAssignor, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """The checked result of `assignor`, with an entry for every member. Raises only `IllegalAssignment`."""
    if not members:
        return {}
    try:
        assigned = _plain(assignor.assign(members, partitions))
    except Exception as error:
        raise IllegalAssignment(f"assignor {assignor.name!r} failed{_raised_at(error)}: {error!r}") from error
    assigned_indexes: dict[int, set[int]] = {}
    for member_id, assignment in assigned.items():
        for topic, indexes in assignment.items():
            _check(assignor.name, members.get(member_id), member_id, topic, indexes, partitions)
            earlier = assigned_indexes.setdefault(topic.int, set())
            if not earlier.isdisjoint(indexes):
                _reject_duplicate(assignor.name, assigned, topic, min(earlier & indexes))
            earlier |= indexes
    return {member_id: _without_empty(assigned.get(member_id, NOTHING)) for member_id in members}


def _plain(assigned: Mapping[str, Assignment]) -> dict[str, dict[UUID, frozenset[int]]]:
    """A copy in plain types: a plugin may return any types, and change the objects later."""
    return {
        member_id: {topic: frozenset(map(index_of, indexes)) for topic, indexes in assignment.items()}
        for member_id, assignment in assigned.items()
    }


def _reject_duplicate(name: str, assigned: Mapping[str, Assignment], topic: UUID, index: int) -> None:
    first, second, *_ = [member_id for member_id, assignment in assigned.items() if index in assignment.get(topic, ())]
    raise IllegalAssignment(f"assignor {name!r} assigned partition {index} of {topic} to both {first} and {second}")


def _raised_at(error: Exception) -> str:
    """The file and line of the exception, as the traceback is not logged."""
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
        problem = f"to {member_id!r}, which is not a member"
    elif topic not in member.topics:
        problem = f"to {member_id!r}, which is not subscribed to it"
    elif indexes and not 0 <= min(indexes) <= max(indexes) < partitions.get(topic, 0):
        problem = f"to {member_id!r} beyond its {partitions.get(topic, 0)} partitions"
    if problem is not None:
        raise IllegalAssignment(f"assignor {name!r} assigned topic {topic} {problem}")


def _without_empty(assignment: Assignment) -> Assignment:
    return {topic: frozenset(indexes) for topic, indexes in assignment.items() if indexes}


def as_number(topic: UUID) -> int:
    """The topic as a number in the same order: UUIDs are slow to hash and compare."""
    return topic.int


def subscribers_of(members: Sequence[AssigningMember]) -> dict[int, list[int]]:
    """The positions in `members` of the subscribers of each topic, by the topic's number.

    Topics with the same subscribers share one list: that avoids thousands of topics times thousands of members.
    """
    positions: dict[frozenset[UUID], list[int]] = {}
    for position, member in enumerate(members):
        positions.setdefault(member.topics, []).append(position)
    sets: dict[int, list[int]] = {}  # numbers of the subscriptions with each topic
    for number, topics in enumerate(positions):
        for topic in topics:
            sets.setdefault(topic.int, []).append(number)
    position_lists = list(positions.values())
    lists: dict[tuple[int, ...], list[int]] = {}
    subscribers: dict[int, list[int]] = {}
    for topic_number, numbers in sets.items():
        key = tuple(numbers)
        if key not in lists:
            lists[key] = (
                position_lists[key[0]]
                if len(key) == 1
                else sorted(chain.from_iterable(position_lists[number] for number in key))
            )
        subscribers[topic_number] = lists[key]
    return subscribers


def range_assignment(members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """Contiguous partitions of each topic for each subscriber; the first subscribers get one more.

    Static members are first, by instance id, then dynamic members by member id. So with equal subscriptions and
    partition counts a member has the same partitions of each topic, as joins of topics require.
    """
    ordered = sorted(
        members.values(),
        key=lambda member: (member.instance_id is None, member.instance_id or member.member_id),
    )
    assigned: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    counts = {topic.int: count for topic, count in partitions.items()}
    for number, subscribers in subscribers_of(ordered).items():
        topic = UUID(int=number)
        quota, one_more = divmod(counts[number], len(subscribers))
        start = 0
        for rank, subscriber in enumerate(subscribers):
            end = start + quota + (rank < one_more)
            if start < end:
                assigned[ordered[subscriber].member_id][topic] = frozenset(range(start, end))
            start = end
    return dict(assigned)
