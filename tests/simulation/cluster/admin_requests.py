"""Requests of an administrator of a cluster, packed by hand."""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from tests.simulation.requests import Partition
from tests.tools.raw_requests import METADATA, framed, text

ELECT_LEADERS, ALTER_REASSIGNMENTS = 43, 45
TIMEOUT_MS = 3_000
_I16, _I32 = Struct(">h"), Struct(">i")
_NO_TAGS = b"\x00"


class PartitionMetadata(NamedTuple):
    """What a broker says of a partition."""

    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


def reassign(partition: Partition, target: Sequence[int] | None, correlation: int) -> bytes:
    """AlterPartitionReassignments 0; without a target it cancels the one that is under way."""
    topic, number = partition
    name = bytes((len(topic) + 1,)) + topic.encode()
    replicas = b"\x00" if target is None else bytes((len(target) + 1,)) + b"".join(map(_I32.pack, target))
    row = _I32.pack(number) + replicas + _NO_TAGS
    topics = b"\x02" + name + b"\x02" + row + _NO_TAGS
    return framed(ALTER_REASSIGNMENTS, 0, _NO_TAGS + _I32.pack(TIMEOUT_MS) + topics + _NO_TAGS, correlation)


def read_reassigned(body: bytes) -> int:
    """The error of all, or of the only partition."""
    (error,) = _I16.unpack_from(body, 5)
    at = 7
    at += max(1, body[at])
    if error or body[at] < 2:
        return int(error)
    at += 1
    at += body[at] + 1 + _I32.size
    return int(_I16.unpack_from(body, at)[0])


def elect_preferred(partition: Partition, correlation: int) -> bytes:
    """ElectLeaders 0."""
    row = _I32.pack(1) + text(partition[0]) + _I32.pack(1) + _I32.pack(partition[1])
    return framed(ELECT_LEADERS, 0, row + _I32.pack(TIMEOUT_MS), correlation)


def read_elected(body: bytes) -> int:
    """The error of the only partition; 0 where there is none to tell of."""
    (topics,) = _I32.unpack_from(body, 4)
    if not topics:
        return 0
    (length,) = _I16.unpack_from(body, 8)
    return int(_I16.unpack_from(body, 10 + length + 8)[0])


def all_metadata(correlation: int) -> bytes:
    """Metadata 1, of all topics."""
    return framed(METADATA, 1, _I32.pack(-1), correlation)


def read_metadata(body: bytes) -> dict[Partition, PartitionMetadata] | None:
    """All of it; None where a topic or partition has an error."""
    (brokers,) = _I32.unpack_from(body)
    at = 4
    for _ in range(brokers):
        _, at = _text(body, at + 4)
        _, at = _text(body, at + 4)
    at += 4
    (topics,) = _I32.unpack_from(body, at)
    at += 4
    found = {}
    for _ in range(topics):
        (error,) = _I16.unpack_from(body, at)
        name, at = _text(body, at + 2)
        (partitions,) = _I32.unpack_from(body, at + 1)
        at += 5
        for _ in range(partitions):
            code, number, leader = Struct(">hii").unpack_from(body, at)
            replicas, at = _numbers(body, at + 10)
            isr, at = _numbers(body, at)
            error = error or code
            found[name, number] = PartitionMetadata(leader, replicas, frozenset(isr))
        if error:
            return None
    return found


def _text(body: bytes, at: int) -> tuple[str, int]:
    (length,) = _I16.unpack_from(body, at)
    end = at + 2 + max(0, length)
    return body[at + 2 : end].decode(), end


def _numbers(body: bytes, at: int) -> tuple[tuple[int, ...], int]:
    (count,) = _I32.unpack_from(body, at)
    end = at + 4 + 4 * count
    return tuple(number for (number,) in _I32.iter_unpack(body[at + 4 : end])), end
