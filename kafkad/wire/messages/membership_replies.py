"""Packs responses of JoinGroup, SyncGroup and ConsumerGroupHeartbeat by hand.

A rebalance of a thousand members sends a thousand responses to JoinGroup and SyncGroup, and the leader's contains all
members; packing it by schema would block the worker's loop for too long. Each member of a KIP-848 group gets a response
to ConsumerGroupHeartbeat every few seconds; packing it by schema took longer than handling the heartbeat. The throttle
time is always 0. Tests compare every version with kio's schemas.
"""

from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from uuid import UUID

from kafkad.wire.error_counts import count_error
from kafkad.wire.primitives import EMPTY_TAGS, I16, I32, NOT_THROTTLED, array_length, compact_string, string, uvarint

JOIN_FLEXIBLE_FROM = 6
SYNC_FLEXIBLE_FROM = 4
_CODE_AND_GENERATION = Struct(">hi")

Members = Iterable[tuple[str, str | None, bytes]]
"""(member id, instance id, metadata) of each."""


def pack_join(
    version: int,
    code: int,
    generation: int,
    *,
    protocol_type: str | None,
    protocol: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Members,
) -> bytes:
    """JoinGroup, versions 0 to 9. Before version 7 no protocol is an empty string."""
    count_error(code)
    flexible = version >= JOIN_FLEXIBLE_FROM
    text = compact_string if flexible else string
    parts = [NOT_THROTTLED if version >= 2 else b"", _CODE_AND_GENERATION.pack(code, generation)]
    if version >= 7:
        parts += (text(protocol_type), text(protocol))
    else:
        parts.append(text(protocol or ""))
    parts.append(text(leader))
    if version >= 9:
        parts.append(b"\x01" if skip_assignment else b"\x00")
    parts.append(text(member_id))
    rows = _flexible_rows(members) if flexible else _rows(members, with_instance_id=version >= 5)
    parts += (array_length(len(rows), flexible=flexible), *rows)
    if flexible:
        parts.append(EMPTY_TAGS)
    return b"".join(parts)


def pack_sync(version: int, code: int, *, protocol_type: str | None, protocol: str | None, assignment: bytes) -> bytes:
    """SyncGroup, versions 0 to 5."""
    count_error(code)
    head = (NOT_THROTTLED if version >= 1 else b"") + I16.pack(code)
    if version < SYNC_FLEXIBLE_FROM:
        return head + I32.pack(len(assignment)) + assignment
    if version >= 5:
        head += compact_string(protocol_type) + compact_string(protocol)
    return head + uvarint(len(assignment) + 1) + assignment + EMPTY_TAGS


def _rows(members: Members, *, with_instance_id: bool) -> list[bytes]:
    return [
        string(member_id) + (string(instance_id) if with_instance_id else b"") + I32.pack(len(metadata)) + metadata
        for member_id, instance_id, metadata in members
    ]


def _flexible_rows(members: Members) -> list[bytes]:
    return [
        compact_string(member_id) + compact_string(instance_id) + uvarint(len(metadata) + 1) + metadata + EMPTY_TAGS
        for member_id, instance_id, metadata in members
    ]


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
