"""Packs responses of JoinGroup and SyncGroup by hand: a rebalance of a thousand members sends a thousand of each.

The leader's response contains all members; packing it by schema would block the worker's loop for too long. The
throttle time is always 0. Tests compare every version with kio's schemas.
"""

from collections.abc import Iterable
from struct import Struct

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
