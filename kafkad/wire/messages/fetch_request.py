"""Decodes Fetch requests, versions 4 to 18, by hand, because only Produce is as frequent.

Decoding is most of the cost of a fetch from an idle partition, so it allocates as little as possible.
"""

from struct import Struct
from struct import error as StructError

from kafkad.wire.api_table import FETCH
from kafkad.wire.messages.fetch import FLEXIBLE_FROM, TOPIC_IDS_FROM
from kafkad.wire.primitives import (
    I32,
    I64,
    MOST_TAGS,
    MalformedRequest,
    read_compact_string,
    read_i32,
    read_slice,
    read_string,
    read_uvarint,
)
from kafkad.wire.request_limits import Allowance, allowance_of
from kafkad.wire.steps import STEP, Reading

_LIMITS = Struct(">iiib")
_SESSION = Struct(">ii")
REPLICA_STATE_FROM = 15
CONSUMER = -1


class FetchedPartition:
    """One partition of a request; fields that the version does not have are -1. Slotted: there may be thousands."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
    )

    def __init__(
        self,
        partition: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        max_bytes: int,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes


class FetchRequest:
    """Topics have names up to version 12 and 16-byte ids from 13 on."""

    __slots__ = (
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_epoch",
        "replica_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(self, replica_id: int, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation_level: int) -> None:
        self.replica_id = replica_id
        self.replica_epoch = -1
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.rack_id = ""
        self.session_id = 0
        self.session_epoch = -1
        self.topics: list[tuple[str | bytes, list[FetchedPartition]]] = []
        self.forgotten: list[tuple[str | bytes, list[int]]] = []


def read_request(frame: memoryview, at: int, version: int) -> Reading[FetchRequest]:
    """A generator that yields after every few hundred partitions. Raises MalformedRequest."""
    try:
        request, at = _read_head(frame, at, version)
        count, at = _read_count(frame, at, version)
        allowance = allowance_of(FETCH)
        allowance.take(count)
        remaining = STEP
        for _ in range(count):
            topic, at = _read_topic(frame, at, version)
            length, at = _read_count(frame, at, version)
            allowance.take(length)
            partitions: list[FetchedPartition] = []
            remaining -= 1
            while len(partitions) < length:
                if remaining <= 0:
                    yield
                    remaining = STEP
                some, at = _read_partitions(frame, at, version, min(remaining, length - len(partitions)))
                partitions += some
                remaining -= len(some)
            if version >= FLEXIBLE_FROM:
                at = _skip_section(frame, at)
            request.topics.append((topic, partitions))
            if remaining <= 0:
                yield
                remaining = STEP
        if version >= 7:
            count, at = _read_count(frame, at, version)
            allowance.take(count)
            for number in range(count):
                at = _read_forgotten(request, frame, at, version, allowance)
                if number % STEP == STEP - 1:
                    yield
        _read_end(request, frame, at, version)
    except StructError as error:
        raise _too_short(error) from error
    return request


def _too_short(error: StructError) -> MalformedRequest:
    return MalformedRequest(f"the Fetch request is cut off: {error}")


def _read_end(request: FetchRequest, frame: memoryview, at: int, version: int) -> None:
    if version >= 11:
        rack_id, at = read_compact_string(frame, at) if version >= FLEXIBLE_FROM else read_string(frame, at)
        request.rack_id = rack_id or ""
    if version >= FLEXIBLE_FROM:
        _read_tags(request, frame, at)


def _read_head(frame: memoryview, at: int, version: int) -> tuple[FetchRequest, int]:
    replica_id = CONSUMER
    if version < REPLICA_STATE_FROM:
        replica_id, at = read_i32(frame, at)
    request = FetchRequest(replica_id, *_LIMITS.unpack_from(frame, at))
    at += 13
    if version >= 7:
        request.session_id, request.session_epoch = _SESSION.unpack_from(frame, at)
        at += 8
    return request, at


def _read_count(frame: memoryview, at: int, version: int) -> tuple[int, int]:
    if version >= FLEXIBLE_FROM:
        count, at = read_uvarint(frame, at)
        return count - 1, at
    return read_i32(frame, at)


def _read_topic(frame: memoryview, at: int, version: int) -> tuple[str | bytes, int]:
    if version >= TOPIC_IDS_FROM:
        raw, at = read_slice(frame, at, 16)
        return bytes(raw), at
    name, at = read_compact_string(frame, at) if version >= FLEXIBLE_FROM else read_string(frame, at)
    if name is None:
        raise MalformedRequest("a topic name is null")
    return name, at


_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")


def _read_partitions(frame: memoryview, at: int, version: int, count: int) -> tuple[list[FetchedPartition], int]:
    rows = []
    for _ in range(count):
        if version >= 12:
            rows.append(FetchedPartition(*_PARTITION_V12.unpack_from(frame, at)))
            at += 32
            tags, at = read_uvarint(frame, at)
            if tags:
                at = _skip(frame, at, tags)
        elif version >= 9:
            index, epoch, offset, log_start, max_bytes = _PARTITION_V9.unpack_from(frame, at)
            rows.append(FetchedPartition(index, epoch, offset, -1, log_start, max_bytes))
            at += 28
        elif version >= 5:
            index, offset, log_start, max_bytes = _PARTITION_V5.unpack_from(frame, at)
            rows.append(FetchedPartition(index, -1, offset, -1, log_start, max_bytes))
            at += 24
        else:
            index, offset, max_bytes = _PARTITION_V4.unpack_from(frame, at)
            rows.append(FetchedPartition(index, -1, offset, -1, -1, max_bytes))
            at += 16
    return rows, at


def _read_forgotten(request: FetchRequest, frame: memoryview, at: int, version: int, allowance: Allowance) -> int:
    """The forgotten partitions of one topic."""
    topic, at = _read_topic(frame, at, version)
    length, at = _read_count(frame, at, version)
    allowance.take(length)
    raw, at = read_slice(frame, at, 4 * length)
    request.forgotten.append((topic, [index for (index,) in I32.iter_unpack(raw)]))
    return _skip_section(frame, at) if version >= FLEXIBLE_FROM else at


def _read_tags(request: FetchRequest, frame: memoryview, at: int) -> None:
    """Read tag 1, the replica state (KIP-903): the follower's replica id and epoch."""
    count, at = read_uvarint(frame, at)
    if count > MOST_TAGS:
        raise MalformedRequest(f"{count} tagged fields in one section, at most {MOST_TAGS} are allowed")
    for _ in range(count):
        tag, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        raw, at = read_slice(frame, at, size)
        if tag == 1:
            request.replica_id = I32.unpack_from(raw)[0]
            request.replica_epoch = I64.unpack_from(raw, 4)[0]


def _skip_section(frame: memoryview, at: int) -> int:
    count, at = read_uvarint(frame, at)
    return _skip(frame, at, count) if count else at


def _skip(frame: memoryview, at: int, count: int) -> int:
    if count > MOST_TAGS:
        raise MalformedRequest(f"{count} tagged fields in one section, at most {MOST_TAGS} are allowed")
    for _ in range(count):
        _tag, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        _raw, at = read_slice(frame, at, size)
    return at
