"""Packs responses of ConsumerGroupHeartbeat by hand: each member of a KIP-848 group gets one every few seconds.

Packing by schema took longer than handling the heartbeat. The throttle time is always 0. Both versions have the same
layout.
"""

from collections.abc import Collection, Mapping
from struct import Struct
from uuid import UUID

from kafkad.wire.error_counts import count_error
from kafkad.wire.primitives import EMPTY_TAGS, array_length, compact_string

_NOT_THROTTLED_AND_CODE = Struct(">ih")
_EPOCH_AND_INTERVAL = Struct(">ii")
_UNCHANGED = b"\xff"
_ASSIGNED = b"\x01"


def pack_consumer_heartbeat(
    code: int,
    message: str | None,
    *,
    member_id: str | None,
    member_epoch: int,
    heartbeat_interval_ms: int,
    assignment: Mapping[UUID, Collection[int]] | None,
) -> bytes:
    """ConsumerGroupHeartbeat, versions 0 and 1. `assignment` is None if it has not changed."""
    count_error(code)
    head = _NOT_THROTTLED_AND_CODE.pack(0, code) + compact_string(message) + compact_string(member_id)
    head += _EPOCH_AND_INTERVAL.pack(member_epoch, heartbeat_interval_ms)
    if assignment is None:
        return head + _UNCHANGED + EMPTY_TAGS
    # Comparing numbers is faster than comparing UUIDs.
    ordered = sorted(assignment.items(), key=lambda row: row[0].int)
    rows = [_topic(topic_id, partitions) for topic_id, partitions in ordered]
    assigned = _ASSIGNED + array_length(len(rows), flexible=True) + b"".join(rows) + EMPTY_TAGS
    return head + assigned + EMPTY_TAGS


def _topic(topic_id: UUID, partitions: Collection[int]) -> bytes:
    count = len(partitions)
    indexes = Struct(f">{count}i").pack(*sorted(partitions))
    return topic_id.bytes + array_length(count, flexible=True) + indexes + EMPTY_TAGS
