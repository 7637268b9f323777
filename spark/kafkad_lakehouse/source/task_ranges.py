"""Divide ranges among tasks by the options for numbers of tasks, as Spark's Kafka source does. Pure.

`maxRecordsPerPartition` divides the ranges first. Then the large pieces are divided into about `minPartitions` pieces
in total. Both options count offsets.
"""

import math
from collections.abc import Sequence

from kafkad_lakehouse.export.ranges import OffsetRange, split_evenly

TopicOffsets = tuple[str, OffsetRange]


def divided(ranges: Sequence[TopicOffsets], min_tasks: int | None, max_records: int | None) -> list[TopicOffsets]:
    """The pieces of `ranges`, which must not be empty; `min_tasks` is `minPartitions`."""
    pieces = [
        (topic, piece)
        for topic, whole in ranges
        for piece in split_evenly(whole, 1 if max_records is None else -(-_size(whole) // max_records))
    ]
    if min_tasks is None or len(pieces) >= min_tasks:
        return pieces
    total = sum(_size(whole) for _, whole in pieces)
    small = [(topic, whole) for topic, whole in pieces if _share(whole, total, min_tasks) == 1]
    # If a partition has a small piece, its other pieces are not divided.
    kept = {(topic, whole.partition) for topic, whole in small}
    left = max(min_tasks - len(small), 1)
    of_large = total - sum(_size(whole) for _, whole in small)
    return [
        (topic, piece)
        for topic, whole in pieces
        for piece in split_evenly(whole, 1 if (topic, whole.partition) in kept else _share(whole, of_large, left))
    ]


def _share(whole: OffsetRange, total: int, pieces: int) -> int:
    return max(math.floor(_size(whole) / total * pieces + 0.5), 1)


def _size(whole: OffsetRange) -> int:
    return whole.end - whole.start
