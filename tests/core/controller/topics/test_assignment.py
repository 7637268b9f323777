import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.controller.topics.assignment import assign_replicas, interleave_by_rack, validate_manual
from kafkad.core.errors import ErrorCode, KafkaError


def naive(
    brokers: list[int], partitions: int, factor: int, start: int, shift: int, first: int
) -> list[tuple[int, ...]]:
    """Walk the circle: the leader's place, then count steps, jumping over the leader."""
    result = []
    laps = 0
    for partition in range(first, first + partitions):
        if partition and partition % len(brokers) == 0:
            laps += 1
        leader = (partition + start) % len(brokers)
        others = brokers[leader + 1 :] + brokers[:leader]
        offset = shift + laps
        replicas = [brokers[leader]]
        replicas += [others[(offset + place) % len(others)] for place in range(factor - 1)]
        result.append(tuple(replicas))
    return result


@given(st.data())
def test_assignment_without_racks_is_the_circle_walked_by_hand(data: st.DataObject) -> None:
    brokers = sorted(data.draw(st.sets(st.integers(0, 50), min_size=1, max_size=8)))
    factor = data.draw(st.integers(1, len(brokers)))
    partitions = data.draw(st.integers(1, 40))
    start, shift = (data.draw(st.integers(0, len(brokers) - 1)) for _ in range(2))
    first = data.draw(st.integers(0, 20))
    assigned = assign_replicas(
        dict.fromkeys(brokers), partitions, factor, start_index=start, shift=shift, first_partition=first
    )
    assert assigned == naive(brokers, partitions, factor, start, shift, first)


@given(st.data())
def test_replicas_are_distinct_spread_and_on_as_many_racks_as_there_are(data: st.DataObject) -> None:
    racks = data.draw(st.dictionaries(st.integers(0, 50), st.sampled_from("abcd"), min_size=1, max_size=9))
    factor = data.draw(st.integers(1, len(racks)))
    partitions = data.draw(st.integers(1, 30))
    start, shift = (data.draw(st.integers(0, len(racks) - 1)) for _ in range(2))
    assigned = assign_replicas(racks, partitions, factor, start_index=start, shift=shift)
    assert len(assigned) == partitions
    for replicas in assigned:
        assert len(set(replicas)) == factor
        assert len({racks[replica] for replica in replicas}) == min(factor, len(set(racks.values())))
    leaders = [replicas[0] for replicas in assigned]
    counts = [leaders.count(broker) for broker in racks]
    assert max(counts) - min(counts) <= 1


def test_the_examples_of_kafkas_own_documentation() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert interleave_by_rack(racks) == [0, 3, 1, 5, 4, 2]
    assert assign_replicas(racks, 7, 3, start_index=0, shift=0) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


def test_two_racks_of_two_and_one_broker_alternate() -> None:
    assert interleave_by_rack({0: "a", 1: "a", 2: "b"}) == [0, 2, 1]


def test_a_factor_above_the_number_of_brokers_explains_itself() -> None:
    with pytest.raises(KafkaError) as refused:
        assign_replicas({1: None}, 1, 3, start_index=0, shift=0)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.value.message == (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
        "because only 1 broker(s) are registered."
    )


@pytest.mark.parametrize(("start", "shift"), [(0, 0), (1, 2), (3, 1)])
def test_brokers_without_a_rack_are_a_rack_where_others_have_one(start: int, shift: int) -> None:
    found = assign_replicas({1: "a", 2: None, 3: "a", 4: None}, 4, 2, start_index=start, shift=shift)
    assert all(len({1, 3}.intersection(each)) == 1 for each in found), "one replica in each"
    assert sorted(each[0] for each in found) == [1, 2, 3, 4]
    assert sorted(assign_replicas({1: "a", 2: None}, 1, 2, start_index=0, shift=0)[0]) == [1, 2]


@pytest.mark.parametrize(
    ("replicas", "factor", "message"),
    [
        ((), None, "an empty replica list"),
        ((1, 9), None, "broker 9, but no such broker is registered"),
        ((1, 2, 1), None, "the broker 1 more than once"),
        ((1, 2), 1, r"2 replica\(s\), but this is not consistent with previous partitions, which have 1 replica"),
    ],
)
def test_manual_assignments_are_checked(replicas: tuple[int, ...], factor: int | None, message: str) -> None:
    with pytest.raises(KafkaError, match=message) as refused:
        validate_manual(replicas, {1: None, 2: None}, factor)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_manual_assignment_keeps_its_order() -> None:
    assert validate_manual([2, 1], {1: None, 2: None}, 2) == (2, 1)
