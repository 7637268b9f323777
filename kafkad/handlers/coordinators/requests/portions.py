"""A request about very many partitions goes to its group in portions, so that its worker serves others in between.

The portions are requests of their own: the offsets of each are committed or not. Apache Kafka has one batch for all
of them, and refuses what does not fit into `message.max.bytes`: some 20,000 offsets by default.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

PORTION = 1_000
"""So many partitions are asked for at once: some ten milliseconds of a worker."""
LARGE_BYTES = 32 * 1024
"""A smaller request goes on as it came."""


def portions_of(topics: Sequence[Any], field: str) -> list[tuple[Any, ...]]:
    """`topics` cut so that none has more than `PORTION` topics and partitions; `field` has a topic's partitions."""
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
