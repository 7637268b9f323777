"""Packs responses of DescribeProducers, version 0, by hand: a partition may have hundreds of thousands of producers."""

from collections.abc import Iterable, Sequence
from itertools import chain
from struct import Struct
from typing import NamedTuple

from kafkad.wire.error_counts import count_error
from kafkad.wire.primitives import EMPTY_TAGS, I32, array_length, compact_string

_PRODUCER = Struct(">qiiqiqB")
"""Includes its empty section of tagged fields."""
_PARTITION = Struct(">ih")
_NO_TAGS = 0


class ProducerRow(NamedTuple):
    """One active producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


def pack_producers(rows: Iterable[ProducerRow]) -> bytes:
    """Pack some producers of a partition. The owner calls this, so that other processes handle bytes only."""
    return b"".join([_PRODUCER.pack(*row, _NO_TAGS) for row in rows])


def pack_partition(index: int, error: int, message: str | None, count: int, producers: bytes) -> tuple[bytes, ...]:
    """`producers` has `count` rows from `pack_producers`, which are copied only once, into the whole response."""
    count_error(error)
    head = _PARTITION.pack(index, error) + compact_string(message) + array_length(count, flexible=True)
    return head, producers, EMPTY_TAGS


def pack_response(topics: Sequence[tuple[str, Sequence[tuple[bytes, ...]]]]) -> bytes:
    """The body, from topics whose partitions come from `pack_partition`."""
    pieces = [I32.pack(0), array_length(len(topics), flexible=True)]
    for name, rows in topics:
        pieces += (compact_string(name), array_length(len(rows), flexible=True))
        pieces += chain.from_iterable(rows)
        pieces.append(EMPTY_TAGS)
    return b"".join((*pieces, EMPTY_TAGS))
