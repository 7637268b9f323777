"""Range and uniform assignments: every partition has one subscribed owner, balanced, with few moves."""

from collections.abc import Mapping
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.groups.consumer import uniform
from kafkad.core.groups.consumer.assignors import (
    AssigningMember,
    Assignment,
    GroupAssignor,
    IllegalAssignment,
    assign,
    range_assignment,
    subscribers_of,
)
from kafkad.core.groups.consumer.uniform import uniform_assignment
from kafkad.plugins.group_assignors import Range, Uniform

TOPICS = [UUID(int=number + 1) for number in range(4)]
A, B, C, D = TOPICS


def member(member_id: str, *topics: UUID, instance_id: str | None = None, **assigned: set[int]) -> AssigningMember:
    held = {TOPICS["abcd".index(letter)]: frozenset(indexes) for letter, indexes in assigned.items()}
    return AssigningMember(member_id=member_id, topics=frozenset(topics), assigned=held, instance_id=instance_id)


def by_id(*members: AssigningMember) -> dict[str, AssigningMember]:
    return {each.member_id: each for each in members}


def size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def moved(before: Mapping[str, Assignment], after: Mapping[str, Assignment]) -> int:
    """Partitions that had an owner who is still there, and have another one now."""
    kept = sum(
        len(indexes & after[member_id].get(topic, frozenset()))
        for member_id, assignment in before.items()
        if member_id in after
        for topic, indexes in assignment.items()
    )
    return sum(size(assignment) for member_id, assignment in before.items() if member_id in after) - kept


def test_topics_with_the_same_subscribers_share_a_list() -> None:
    members = [member("m1", A, B, C), member("m2", C), member("m3", A, B, C), member("m4", D, A, B), member("m5")]
    subscribers = subscribers_of(members)
    assert subscribers == {A.int: [0, 2, 3], B.int: [0, 2, 3], C.int: [0, 1, 2], D.int: [3]}
    assert subscribers[A.int] is subscribers[B.int]


def test_a_range_is_the_same_in_each_topic_of_the_same_size() -> None:
    members = by_id(member("m2", A, B), member("m1", A, B))
    assert range_assignment(members, {A: 3, B: 3}) == {
        "m1": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "m2": {A: frozenset({2}), B: frozenset({2})},
    }


def test_static_members_come_first_in_a_range_by_instance_id() -> None:
    members = by_id(member("a", A), member("z", A, instance_id="1"), member("y", A, instance_id="2"))
    decided = range_assignment(members, {A: 4})
    assert decided == {"z": {A: frozenset({0, 1})}, "y": {A: frozenset({2})}, "a": {A: frozenset({3})}}


def test_a_range_counts_only_the_subscribers_of_a_topic() -> None:
    members = by_id(member("m1", A), member("m2", A, B), member("m3", B))
    assert range_assignment(members, {A: 2, B: 1}) == {
        "m1": {A: frozenset({0})},
        "m2": {A: frozenset({1}), B: frozenset({0})},
        "m3": {},
    }


def test_a_third_member_takes_as_much_as_balance_needs_and_no_more() -> None:
    members = by_id(member("m1", A, a={0, 1, 2}), member("m2", A, a={3, 4, 5}), member("m3", A))
    decided = uniform_assignment(members, {A: 6})
    assert [size(decided[member_id]) for member_id in ("m1", "m2", "m3")] == [2, 2, 2]
    assert decided["m1"][A] < {0, 1, 2}
    assert decided["m2"][A] < {3, 4, 5}


def test_who_has_one_more_already_keeps_it() -> None:
    members = by_id(member("m1", A, a={0}), member("m2", A, a={1, 2}))
    assert uniform_assignment(members, {A: 3}) == {"m1": {A: frozenset({0})}, "m2": {A: frozenset({1, 2})}}


def test_what_few_may_have_is_not_crowded_out() -> None:
    members = by_id(member("m1", A, B), member("m2", A))
    decided = uniform_assignment(members, {A: 2, B: 2})
    assert decided == {"m1": {B: frozenset({0, 1})}, "m2": {A: frozenset({0, 1})}}


class CountedUUID(UUID):
    """Counts how often a topic is hashed or compared, which is what an assignment of thousands takes its time for."""

    looks = 0

    def __hash__(self) -> int:
        CountedUUID.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        CountedUUID.looks += 1
        return super().__eq__(other)


@pytest.mark.parametrize("assignor", [Uniform(), Range()], ids=lambda assignor: assignor.name)
def test_members_with_different_topics_cost_little_more_than_their_topics(assignor: GroupAssignor) -> None:
    random = Random(1)
    topics = [CountedUUID(int=number + 1) for number in range(300)]
    partitions: dict[UUID, int] = dict.fromkeys(topics, 1)
    members = by_id(*(member(f"m{number:02}", *random.sample(topics, 30 + 5 * number)) for number in range(30)))
    subscriptions = sum(len(each.topics) for each in members.values())
    CountedUUID.looks = 0
    decided = assign(assignor, members, partitions)
    assert sum(map(size, decided.values())) == len({topic for each in members.values() for topic in each.topics})
    assert CountedUUID.looks < subscriptions + 20 * len(topics)


def test_a_balance_that_takes_too_long_is_abandoned_and_every_partition_has_its_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uniform, "_MAX_VISITS", 3)
    topics = [UUID(int=number + 1) for number in range(50)]
    members = by_id(*(member(f"m{number:02}", *topics[number:]) for number in range(30)))
    decided = uniform_assignment(members, dict.fromkeys(topics, 2))
    check_complete(members, dict.fromkeys(topics, 2), decided)


@st.composite
def groups(draw: st.DrawFn, *, same_topics: bool) -> tuple[dict[str, AssigningMember], dict[UUID, int]]:
    partitions = {topic: draw(st.integers(1, 9)) for topic in TOPICS}
    names = draw(st.lists(st.integers(0, 30), unique=True, min_size=1, max_size=8))
    common = draw(st.frozensets(st.sampled_from(TOPICS), min_size=1))
    held: dict[int, dict[UUID, set[int]]] = {name: {} for name in names}
    for topic, count in partitions.items():
        for index in range(count + 2):  # two that are not there any more
            owner = draw(st.sampled_from([*names, None]))
            if owner is not None:
                held[owner].setdefault(topic, set()).add(index)
    members = {}
    for name in names:
        topics = common if same_topics else draw(st.frozensets(st.sampled_from(TOPICS)))
        assigned = {topic: frozenset(indexes) for topic, indexes in held[name].items()}
        members[f"m{name}"] = AssigningMember(member_id=f"m{name}", topics=topics, assigned=assigned)
    return members, partitions


def settled(members: Mapping[str, AssigningMember], decided: Mapping[str, Assignment]) -> dict[str, AssigningMember]:
    return {
        name: AssigningMember(member_id=name, topics=each.topics, assigned=decided[name])
        for name, each in members.items()
    }


def check_complete(
    members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int], decided: Mapping[str, Assignment]
) -> None:
    wanted = {topic for each in members.values() for topic in each.topics}
    assert sum(size(assignment) for assignment in decided.values()) == sum(partitions[topic] for topic in wanted)


@given(groups(same_topics=True))
def test_uniform_is_balanced_within_one_and_stays(group: tuple[dict[str, AssigningMember], dict[UUID, int]]) -> None:
    members, partitions = group
    decided = assign(Uniform(), members, partitions)
    check_complete(members, partitions, decided)
    sizes = [size(assignment) for assignment in decided.values()]
    assert max(sizes) - min(sizes) <= 1
    assert assign(Uniform(), settled(members, decided), partitions) == decided


@given(groups(same_topics=False))
def test_no_single_move_makes_it_more_even(group: tuple[dict[str, AssigningMember], dict[UUID, int]]) -> None:
    members, partitions = group
    decided = assign(Uniform(), members, partitions)
    check_complete(members, partitions, decided)
    for giver, assignment in decided.items():
        for taker, each in members.items():
            if any(topic in each.topics for topic in assignment):
                assert size(decided[giver]) - size(decided[taker]) <= 1, f"{giver} could give to {taker}"
    assert assign(Uniform(), settled(members, decided), partitions) == decided


@given(groups(same_topics=True))
def test_a_member_that_leaves_moves_only_what_it_had(group: tuple[dict[str, AssigningMember], dict[UUID, int]]) -> None:
    members, partitions = group
    before = assign(Uniform(), members, partitions)
    staying = settled(members, before)
    staying.pop(next(iter(staying)))
    assert moved(before, assign(Uniform(), staying, partitions)) == 0


@given(groups(same_topics=False))
def test_range_gives_everything_and_only_once(group: tuple[dict[str, AssigningMember], dict[UUID, int]]) -> None:
    members, partitions = group
    check_complete(members, partitions, assign(Range(), members, partitions))


@pytest.mark.parametrize(
    "decided",
    [
        {"m1": {A: frozenset({0})}, "m2": {A: frozenset({0})}},
        {"m1": {B: frozenset({0})}},
        {"m1": {A: frozenset({2})}},
        {"m3": {A: frozenset({0})}},
    ],
)
def test_an_assignor_that_breaks_the_rules_is_named(decided: Mapping[str, Assignment]) -> None:
    class Broken:
        name = "broken"

        def assign(
            self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
        ) -> Mapping[str, Assignment]:
            return decided

    with pytest.raises(IllegalAssignment, match="'broken'"):
        assign(Broken(), by_id(member("m1", A), member("m2", A)), {A: 2, B: 1})
