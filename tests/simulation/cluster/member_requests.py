"""Requests of members of a classic group, packed by hand in their first versions."""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from tests.simulation.requests import Partition
from tests.tools.raw_requests import framed

OFFSET_COMMIT, OFFSET_FETCH, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 11, 12, 13, 14
_I16, _I32, _I64 = Struct(">h"), Struct(">i"), Struct(">q")


class Joined(NamedTuple):
    error: int
    generation: int
    leader: str
    member: str
    members: list[str]
    """For the leader."""


def _text(text: str) -> bytes:
    return _I16.pack(len(text)) + text.encode()


def _bytes(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data


def _read_text(body: bytes, at: int) -> tuple[str, int]:
    (size,) = _I16.unpack_from(body, at)
    return body[at + 2 : at + 2 + size].decode(), at + 2 + max(0, size)


def _one(partition: Partition, rest: bytes = b"") -> bytes:
    return _I32.pack(1) + _text(partition[0]) + _I32.pack(1) + _I32.pack(partition[1]) + rest


def _member(group: str, generation: int, member: str) -> bytes:
    return _text(group) + _I32.pack(generation) + _text(member)


def join(group: str, member: str, session_ms: int, correlation: int) -> bytes:
    """JoinGroup 0."""
    head = _text(group) + _I32.pack(session_ms) + _text(member) + _text("simulated")
    return framed(JOIN, 0, head + _I32.pack(1) + _text("in turn") + _bytes(b""), correlation)


def read_joined(body: bytes) -> Joined:
    error, generation = Struct(">hi").unpack_from(body)
    _, at = _read_text(body, 6)
    leader, at = _read_text(body, at)
    member, at = _read_text(body, at)
    (count,) = _I32.unpack_from(body, at)
    at += 4
    members = []
    for _ in range(count):
        name, at = _read_text(body, at)
        at += 4 + int(_I32.unpack_from(body, at)[0])
        members.append(name)
    return Joined(error, generation, leader, member, members)


def sync(group: str, generation: int, member: str, shares: Mapping[str, Sequence[int]], correlation: int) -> bytes:
    """SyncGroup 0: what each member gets, if the leader says it."""
    rows = b"".join(_text(each) + _bytes(bytes(numbers)) for each, numbers in shares.items())
    return framed(SYNC, 0, _member(group, generation, member) + _I32.pack(len(shares)) + rows, correlation)


def read_synced(body: bytes) -> tuple[int, list[int]]:
    """(error, numbers of partitions)."""
    return int(_I16.unpack_from(body)[0]), list(body[6:])


def heartbeat(group: str, generation: int, member: str, correlation: int) -> bytes:
    """Heartbeat 0."""
    return framed(HEARTBEAT, 0, _member(group, generation, member), correlation)


def leave(group: str, member: str, correlation: int) -> bytes:
    """LeaveGroup 0."""
    return framed(LEAVE, 0, _text(group) + _text(member), correlation)


def read_error(body: bytes) -> int:
    return int(_I16.unpack_from(body)[0])


def commit(group: str, generation: int, member: str, partition: Partition, offset: int, correlation: int) -> bytes:
    """OffsetCommit 2."""
    head = _member(group, generation, member) + _I64.pack(-1)
    return framed(OFFSET_COMMIT, 2, head + _one(partition, _I64.pack(offset) + _text("")), correlation)


def read_committed(body: bytes) -> int:
    """The error of the only partition."""
    return int(_I16.unpack_from(body, len(body) - 2)[0])


def offset(group: str, partition: Partition, correlation: int) -> bytes:
    """OffsetFetch 1."""
    return framed(OFFSET_FETCH, 1, _text(group) + _one(partition), correlation)


def read_offset(body: bytes, partition: Partition) -> tuple[int, int]:
    """(error, offset) of the only partition."""
    (found,) = _I64.unpack_from(body, 4 + 2 + len(partition[0]) + 4 + 4)
    return int(_I16.unpack_from(body, len(body) - 2)[0]), int(found)
