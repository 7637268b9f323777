"""How ranges become the ranges of tasks: every core has work, and no task is too large."""

from hypothesis import given
from hypothesis import strategies as st

from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.source import Source
from kafkad_lakehouse.export.reading.splitting import SMALLEST_BYTES, divide, group_pieces

SOURCE = Source(topic="t", bootstrap="broker:9092")


def tasks_of(sizes: list[int], tasks: int) -> list[tuple[OffsetRange, ...]]:
    ranges = [OffsetRange(partition, 10, 1_010) for partition, _ in enumerate(sizes)]
    return group_pieces(ranges, sizes, divide(SOURCE, ranges, sizes, tasks), tasks)


@given(st.lists(st.integers(0, 300 << 20), max_size=50), st.integers(0, 9))
def test_each_offset_is_in_one_task_and_none_is_much_larger_than_a_piece(sizes: list[int], tasks: int) -> None:
    found = tasks_of(sizes, tasks)
    assert all(found)
    behind = dict.fromkeys(range(len(sizes)), 10)
    for partition, start, end in (each for task in found for each in task):
        assert start == behind[partition] < end
        behind[partition] = end
    assert all(end == 1_010 for end in behind.values())
    share = max(sum(sizes) // max(tasks, 1), SMALLEST_BYTES)
    for task in found:
        size = sum(sizes[each.partition] * (each.end - each.start) / 1_000 for each in task)
        assert len(task) == 1 or size <= share


def test_few_partitions_have_a_task_each() -> None:
    assert [len(task) for task in tasks_of([100] * 8, 8)] == [1] * 8


def test_many_small_partitions_share_tasks() -> None:
    assert [len(task) for task in tasks_of([100] * 1_000, 8)] == [125] * 8
    assert [len(task) for task in tasks_of([100] * 1_000, 1)] == [1_000]


def test_a_large_partition_has_several_tasks() -> None:
    found = tasks_of([64 << 20, 100, 100], 8)
    assert len(found) > 6
    assert {each.partition for each in found[-1]} <= {1, 2}
