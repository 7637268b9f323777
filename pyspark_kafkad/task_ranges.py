"""Which offsets does each task of a batch read, if options ask for a number of tasks? As Spark's Kafka source. Pure.

`maxRecordsPerPartition` divides first; then `minPartitions` those pieces that are large, so that there are about so
many. Either counts offsets.
"""

import math
from collections.abc import Sequence

from kafkad.export.ranges import OffsetRange, split_evenly

TopicOffsets = tuple[str, OffsetRange]


def divided(ranges: Sequence[TopicOffsets], fewest: int | None, most_records: int | None) -> list[TopicOffsets]:
    """None of `ranges` is empty; `fewest` is `minPartitions`."""
    pieces = [
        (topic, piece)
        for topic, whole in ranges
        for piece in split_evenly(whole, 1 if most_records is None else -(-_size(whole) // most_records))
    ]
    if fewest is None or len(pieces) >= fewest:
        return pieces
    total = sum(_size(whole) for _, whole in pieces)
    small = [(topic, whole) for topic, whole in pieces if _share(whole, total, fewest) == 1]
    # Of a partition one small piece keeps the others whole.
    kept = {(topic, whole.partition) for topic, whole in small}
    left = max(fewest - len(small), 1)
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
