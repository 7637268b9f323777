"""Which offsets a run exports."""

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad_lakehouse.export.problems import DataLost, ExportFailed
from kafkad_lakehouse.export.ranges import Bounds, OffsetRange, TopicFacts, lost_of, plan, split_at, split_evenly


def facts(**bounds: tuple[int, int]) -> TopicFacts:
    return TopicFacts("c", "t", UUID(int=1), {int(name[1:]): Bounds(*pair) for name, pair in bounds.items()})


def test_a_new_table_begins_where_the_log_does() -> None:
    assert plan(facts(p0=(5, 9), p1=(0, 0)), {}).ranges == (OffsetRange(0, 5, 9),)


def test_a_table_goes_on_where_it_ends_and_a_new_partition_begins_where_it_is_told() -> None:
    planned = plan(facts(p0=(0, 9), p1=(0, 4)), {0: 7}, starts={1: 3})
    assert planned.ranges == (OffsetRange(0, 7, 9), OffsetRange(1, 3, 4))


def test_a_run_may_end_before_the_log_does() -> None:
    assert plan(facts(p0=(0, 9)), {}, ends={0: 4}).ranges == (OffsetRange(0, 0, 4),)
    assert plan(facts(p0=(0, 9)), {0: 6}, ends={0: 4}).ranges == ()


def test_records_that_are_gone_before_they_were_exported_are_data_loss() -> None:
    with pytest.raises(DataLost, match="t-0: offsets 3 to 6 are no longer in the log"):
        plan(facts(p0=(7, 9)), {0: 3})
    with pytest.raises(DataLost, match="t-1: offsets 0 to 4 are no longer in the log"):
        plan(facts(p0=(0, 9), p1=(5, 9)), {0: 3}, starts={1: 0})
    planned = plan(facts(p0=(7, 9)), {0: 3}, skips_lost=True)
    assert planned.ranges == (OffsetRange(0, 7, 9),) and planned.lost == (OffsetRange(0, 3, 7),)


def test_what_is_lost_is_known_before_a_run() -> None:
    log = facts(p0=(7, 9), p1=(5, 9), p2=(3, 3), p3=(0, 4))
    assert lost_of(log, {0: 3, 3: 1}, starts={1: 0, 2: 0}) == {
        0: OffsetRange(0, 3, 7),
        1: OffsetRange(1, 0, 5),
        2: OffsetRange(2, 0, 3),
    }
    assert lost_of(log, {}) == {}


def test_a_log_that_is_shorter_than_the_table_is_refused() -> None:
    with pytest.raises(ExportFailed, match="the table ends at offset 12, after the end 9 of the log"):
        plan(facts(p0=(0, 9)), {0: 12})


whole_ranges = st.builds(
    lambda start, size: OffsetRange(0, start, start + size), st.integers(0, 2**40), st.integers(1, 2**20)
)


@given(whole_ranges, st.integers(1, 100))
def test_even_pieces_are_the_whole(whole: OffsetRange, pieces: int) -> None:
    found = split_evenly(whole, pieces)
    assert found[0].start == whole.start and found[-1].end == whole.end and len(found) <= pieces
    assert all(one.end == other.start and one.start < one.end for one, other in pairwise(found))


@given(whole_ranges, st.lists(st.integers(0, 2**41)))
def test_pieces_that_are_cut_at_places_are_the_whole(whole: OffsetRange, places: list[int]) -> None:
    found = split_at(whole, places)
    assert found[0].start == whole.start and found[-1].end == whole.end
    assert all(one.end == other.start and one.start < one.end for one, other in pairwise(found))
