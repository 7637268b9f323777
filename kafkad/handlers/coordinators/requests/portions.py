"""A request about very many partitions is split into portions. So the worker serves other requests in between.

Each portion is a request of its own, and its offsets are committed or not. Apache Kafka writes one batch for all of
them, and refuses more than fits into `message.max.bytes`, by default some 20,000 offsets.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

PORTION = 1_000
"""Partitions in one portion: some ten milliseconds of a worker."""
LARGE_BYTES = 32 * 1024
"""Smaller requests are not split."""


def portions_of(topics: Sequence[Any], field: str) -> list[tuple[Any, ...]]:
    """`topics` in portions of at most `PORTION` topics and partitions; `field` has a topic's partitions."""
    portions: list[tuple[Any, ...]] = []
    portion: list[Any] = []
    room = PORTION
    for topic in topics:
        partitions = getattr(topic, field)
        at = 0
        while True:
            if room <= 1:
                portions.append(tuple(portion))
                portion, room = [], PORTION
            part = partitions[at : at + room - 1]
            portion.append(topic if len(part) == len(partitions) else replace(topic, **{field: part}))
            room -= 1 + len(part)
            at += len(part)
            if at >= len(partitions):
                break
    return [*portions, tuple(portion)] if portion else portions
