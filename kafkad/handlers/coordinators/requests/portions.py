"""Splits requests about very many partitions into portions, so that the worker serves other requests in between.

Each portion is a separate request whose offsets are committed all or none. Apache Kafka writes all offsets of a request
in one batch, and rejects more than fit into `message.max.bytes`, by default some 20,000 offsets.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

PORTION = 1_000
"""Partitions in one portion: about ten milliseconds of a worker."""
LARGE_BYTES = 32 * 1024
"""Smaller requests are not split."""


def portions_of(topics: Sequence[Any], field: str) -> list[tuple[Any, ...]]:
    """`topics` in portions of at most `PORTION` topics and partitions; `field` is the name of a topic's partitions."""
    portions: list[tuple[Any, ...]] = []
    portion: list[Any] = []
    remaining = PORTION
    for topic in topics:
        partitions = getattr(topic, field)
        at = 0
        while True:
            if remaining <= 1:
                portions.append(tuple(portion))
                portion, remaining = [], PORTION
            chunk = partitions[at : at + remaining - 1]
            portion.append(topic if len(chunk) == len(partitions) else replace(topic, **{field: chunk}))
            remaining -= 1 + len(chunk)
            at += len(chunk)
            if at >= len(partitions):
                break
    return [*portions, tuple(portion)] if portion else portions
