"""The current leaders in the responses of a broker that no longer leads a partition (KIP-951).

Produce has them from version 10 on, Fetch from 16: a tagged field of the partition has the leader and its epoch, a
tagged field of the response has the addresses of these brokers. Clients retry there without a Metadata request.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from kafkad.wire.messages.metadata import BrokerRow
from kafkad.wire.primitives import EMPTY_TAGS, I32, compact_string, tagged, uvarint

PRODUCE_FROM = 10
FETCH_FROM = 16
_LEADER = Struct(">ii")

PartitionOf = tuple[str | bytes, int]
"""The topic name or id of the request, and the partition."""


class LeaderHints(NamedTuple):
    """(leader, leader epoch) of rejected partitions, and the addresses of live leaders."""

    leaders: Mapping[PartitionOf, tuple[int, int]]
    nodes: Sequence[BrokerRow]


def current_leader(tag: int, leader: tuple[int, int]) -> bytes:
    """The tagged field of a partition, without the number of fields."""
    return tagged(tag, _LEADER.pack(*leader) + EMPTY_TAGS)


def response_tags(hints: LeaderHints | None) -> bytes:
    """The tagged fields of a response."""
    if hints is None or not hints.nodes:
        return EMPTY_TAGS
    rows = [uvarint(len(hints.nodes) + 1)]
    for broker_id, host, port, rack in hints.nodes:
        rows += (I32.pack(broker_id), compact_string(host), I32.pack(port), compact_string(rack), EMPTY_TAGS)
    return b"\x01" + tagged(0, b"".join(rows))
