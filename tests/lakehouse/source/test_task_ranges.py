"""How many tasks there are: as Spark's Kafka source counts them (`test_connector.py` compares with it)."""

from itertools import pairwise

import pytest

from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.source.task_ranges import divided


@pytest.mark.parametrize(
    ("sizes", "fewest", "most", "pieces"),
    [
        ([10, 10], 2, None, [10, 10]),
        ([10, 10], 1, None, [10, 10]),
        ([10, 10], 4, None, [5, 5, 5, 5]),
        # A small one stays whole, and the others share what is left.
        ([100, 1], 4, None, [33, 33, 34, 1]),
        ([100, 10, 10, 10], 8, None, [20, 20, 20, 20, 20, 10, 10, 10]),
        ([3], 10, None, [1, 1, 1]),
        ([10], None, 4, [3, 3, 4]),
        ([10, 2], None, 100, [10, 2]),
        ([10, 10], 3, 5, [5, 5, 5, 5]),
        ([10, 10], 8, 5, [2, 3, 2, 3, 2, 3, 2, 3]),
        # Rounding may make them fewer than there should be.
        ([9000, 900, 10], 6, 3000, [3000, 3000, 3000, 900, 10]),
    ],
)
def test_as_many_pieces_as_options_ask_for(
    sizes: list[int], fewest: int | None, most: int | None, pieces: list[int]
) -> None:
    ranges = [("t", OffsetRange(number, 7, 7 + size)) for number, size in enumerate(sizes)]
    found = divided(ranges, fewest, most)
    assert [each.end - each.start for _, each in found] == pieces
    for number, size in enumerate(sizes):
        edges = [(each.start, each.end) for _, each in found if each.partition == number]
        assert edges[0][0] == 7 and edges[-1][1] == 7 + size
        assert all(one[1] == other[0] for one, other in pairwise(edges))
