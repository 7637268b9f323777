"""Encode requests to group coordinators: joins of classic groups, heartbeats of KIP-848, commits.

Metadata and assignments of members have constant content in a valid format, because brokers parse them.
"""

import struct
from collections.abc import Mapping, Sequence

from bench.requests import compact_array, compact_string, framed, uvarint

PROTOCOL_TYPE = "consumer"
PROTOCOL = "range"
_SESSION_MS = 45_000
_REBALANCE_MS = 300_000
_NO_TEXT = b"\0"
GROUP = 0
TRANSACTION = 1


def compact_bytes(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def find_coordinator(key: str, kind: int) -> bytes:
    """FindCoordinator v4 of one group or transactional id."""
    return framed(10, 4, struct.pack(">b", kind) + compact_array([compact_string(key)]) + b"\0")


def subscription(topic: str, note: bytes = b"") -> bytes:
    """The subscription of a consumer, version 1; a changed `note` starts a rebalance."""
    named = struct.pack(">hih", 1, 1, len(topic)) + topic.encode()
    return named + struct.pack(">i", len(note)) + note + struct.pack(">i", 0)


def assignment(topic: str, partition: int) -> bytes:
    """The assignment of a consumer, version 1."""
    return struct.pack(">hih", 1, 1, len(topic)) + topic.encode() + struct.pack(">iii", 1, partition, -1)


def join_group(group: str, member: str, metadata: bytes) -> bytes:
    """JoinGroup v9 with one assignor; an empty `member` requests an id."""
    protocols = compact_array([compact_string(PROTOCOL) + compact_bytes(metadata) + b"\0"])
    head = compact_string(group) + struct.pack(">ii", _SESSION_MS, _REBALANCE_MS) + compact_string(member)
    return framed(11, 9, head + _NO_TEXT + compact_string(PROTOCOL_TYPE) + protocols + _NO_TEXT + b"\0")


def sync_group(group: str, generation: int, member: str, assignments: Mapping[str, bytes]) -> bytes:
    """SyncGroup v5; the leader sends the assignments of all members."""
    head = compact_string(group) + struct.pack(">i", generation) + compact_string(member) + _NO_TEXT
    head += compact_string(PROTOCOL_TYPE) + compact_string(PROTOCOL)
    given = [compact_string(name) + compact_bytes(part) + b"\0" for name, part in assignments.items()]
    return framed(14, 5, head + compact_array(given) + b"\0")


def leave_group(group: str, members: Sequence[str]) -> bytes:
    """LeaveGroup v5 of all these members."""
    leaving = [compact_string(member) + _NO_TEXT + _NO_TEXT + b"\0" for member in members]
    return framed(13, 5, compact_string(group) + compact_array(leaving) + b"\0")


def consumer_join(group: str, member: str, topic: str) -> bytes:
    """The first ConsumerGroupHeartbeat v1 of a member."""
    head = compact_string(group) + compact_string(member) + struct.pack(">i", 0) + _NO_TEXT + _NO_TEXT
    subscribed = compact_array([compact_string(topic)]) + _NO_TEXT + _NO_TEXT
    return framed(68, 1, head + struct.pack(">i", _REBALANCE_MS) + subscribed + compact_array([]) + b"\0")


def consumer_heartbeat(group: str, member: str, epoch: int, owned: Mapping[bytes, Sequence[int]] | None) -> bytes:
    """A later ConsumerGroupHeartbeat v1: `owned` by topic id, None without a change."""
    head = compact_string(group) + compact_string(member) + struct.pack(">i", epoch) + _NO_TEXT + _NO_TEXT
    body = head + struct.pack(">i", -1) + _NO_TEXT * 3
    if owned is None:
        return framed(68, 1, body + b"\0\0")
    topics = [
        topic_id + compact_array([struct.pack(">i", partition) for partition in partitions]) + b"\0"
        for topic_id, partitions in owned.items()
    ]
    return framed(68, 1, body + compact_array(topics) + b"\0")


def offset_commit(group: str, topic: str, partition: int, offset: int) -> bytes:
    """OffsetCommit v8 of one partition, without a member."""
    committed = struct.pack(">iqi", partition, offset, -1) + _NO_TEXT + b"\0"
    topics = compact_array([compact_string(topic) + compact_array([committed]) + b"\0"])
    return framed(8, 8, compact_string(group) + struct.pack(">i", -1) + compact_string("") + _NO_TEXT + topics + b"\0")
