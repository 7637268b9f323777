"""Where a batch of a stream begins and ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad_lakehouse.export.problems import DataLost
from kafkad_lakehouse.export.ranges import Bounds, OffsetRange
from kafkad_lakehouse.source.offsets import Offsets, next_end, ranges_between, read_offsets, spelled, up_to

A, B = ("t", 0), ("t", 1)


def test_offsets_are_spelled_as_those_of_sparks_kafka_source() -> None:
    offsets = {("b", 1): 7, ("a", 10): 3, ("b", 0): 0}
    assert spelled(offsets) == {"a": {"10": 3}, "b": {"0": 0, "1": 7}}
    assert read_offsets(spelled(offsets)) == offsets


def test_without_a_limit_a_batch_takes_what_is_there() -> None:
    assert next_end({A: 3}, {A: Bounds(0, 9), B: Bounds(0, 5)}, None, fails_on_loss=True) == {A: 9, B: 5}


def test_a_limit_is_divided_in_the_ratio_of_what_there_is() -> None:
    bounds = {A: Bounds(0, 1_000), B: Bounds(0, 10)}
    assert next_end({A: 0, B: 0}, bounds, 101, fails_on_loss=True) == {A: 100, B: 1}


@given(
    st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 200)), max_size=5),
    st.integers(1, 60),
)
def test_batches_with_a_limit_have_every_offset_once(logs: dict[int, tuple[int, int]], most: int) -> None:
    bounds = {("t", each): Bounds(0, start + more) for each, (start, more) in logs.items()}
    at: Offsets = {("t", each): start for each, (start, _) in logs.items()}
    begun, seen = dict(at), 0
    while (end := next_end(at, bounds, most, fails_on_loss=True)) != at:
        ranges = ranges_between(at, end, dict.fromkeys(bounds, 0), fails_on_loss=True)
        size = sum(each.end - each.start for _, each in ranges)
        assert 0 < size <= most + len(bounds)
        seen, at = seen + size, end
    assert seen == sum(each.end - begun[row] for row, each in bounds.items())


def test_a_batch_whose_beginning_is_not_known_is_data_loss() -> None:
    """The end is of a first batch of Spark's Kafka source, which keeps its beginning elsewhere."""
    with pytest.raises(DataLost, match="t-0: the start of the batch up to offset 5 is unknown"):
        ranges_between({A: 7, B: 0}, {A: 5, B: 2}, {A: 0, B: 0}, fails_on_loss=True)
    ranges = ranges_between({A: 7, B: 0}, {A: 5, B: 2}, {A: 0, B: 0}, fails_on_loss=False)
    assert ranges == [("t", OffsetRange(1, 0, 2))]


def test_a_new_partition_begins_at_its_first_offset() -> None:
    ranges = ranges_between({A: 3}, {A: 5, B: 2}, {A: 0, B: 0}, fails_on_loss=True)
    assert ranges == [("t", OffsetRange(0, 3, 5)), ("t", OffsetRange(1, 0, 2))]


def test_a_new_partition_that_has_lost_its_first_records_is_data_loss() -> None:
    with pytest.raises(DataLost, match="t-1: offsets from 0 on"):
        ranges_between({A: 3}, {A: 5, B: 9}, {A: 0, B: 4}, fails_on_loss=True)
    ranges = ranges_between({A: 3}, {A: 5, B: 9}, {A: 0, B: 4}, fails_on_loss=False)
    assert ranges[1] == ("t", OffsetRange(1, 4, 9))


def test_what_retention_took_is_data_loss() -> None:
    with pytest.raises(DataLost, match="failOnDataLoss=false"):
        ranges_between({A: 3}, {A: 9}, {A: 5}, fails_on_loss=True)
    assert ranges_between({A: 3}, {A: 9}, {A: 5}, fails_on_loss=False) == [("t", OffsetRange(0, 5, 9))]
    assert ranges_between({A: 3}, {A: 9}, {A: 20}, fails_on_loss=False) == []
    assert ranges_between({A: 3}, {A: 3}, {A: 20}, fails_on_loss=True) == []


def test_a_partition_that_is_gone_and_a_log_that_is_shorter_are_data_loss() -> None:
    with pytest.raises(DataLost, match="was deleted"):
        next_end({A: 3, B: 0}, {A: Bounds(0, 5)}, None, fails_on_loss=True)
    assert next_end({A: 3, B: 0}, {A: Bounds(0, 5)}, None, fails_on_loss=False) == {A: 5}
    with pytest.raises(DataLost, match="may be recreated"):
        next_end({A: 9}, {A: Bounds(0, 5)}, None, fails_on_loss=True)
    assert next_end({A: 9}, {A: Bounds(0, 5)}, None, fails_on_loss=False) == {A: 5}


def test_what_comes_after_the_target_is_left_for_another_query() -> None:
    bounds = {A: Bounds(0, 9), B: Bounds(0, 4)}
    assert up_to(bounds, {A: 7}, {A: 3}) == {A: Bounds(0, 7)}
    # A checkpoint may be ahead of the target: the broker was asked, then a batch was planned.
    assert up_to(bounds, {A: 7}, {A: 8, B: 1}) == {A: Bounds(0, 8), B: Bounds(0, 1)}
