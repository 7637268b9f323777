"""Produce, versions 3 to 13, by hand: records in the request are located, never copied or read."""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError

from kafkad.wire.api_table import PRODUCE
from kafkad.wire.messages.leader_hints import LeaderHints, current_leader, response_tags
from kafkad.wire.primitives import (
    EMPTY_TAGS,
    I32,
    MalformedRequest,
    array_length,
    compact_string,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    string,
    uvarint,
)
from kafkad.wire.request_limits import most_elements

_FIXED = Struct(">hii")
_PARTITION = Struct(">ii")
_RESULT_V3 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_MOST_PARTITIONS = most_elements(PRODUCE)
FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13

NO_OFFSET = -1


class ProduceRequest:
    """One Produce request. `topics` has (topic, [(partition, start, length)]), positions in the frame.

    Topics have names up to version 12 and 16-byte ids from 13 on. Null records have length -1. Slotted and mutable for
    speed.
    """

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(
        self,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None,
        topics: list[tuple[str | bytes, list[tuple[int, int, int]]]],
    ) -> None:
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.transactional_id = transactional_id
        self.topics = topics


class PartitionResult:
    """One partition of a Produce response, with the fields of KIP-467.

    `record_errors` are (index in the batch, message).
    """

    __slots__ = (
        "base_offset",
        "error",
        "log_append_time",
        "log_start_offset",
        "message",
        "partition",
        "record_errors",
    )

    def __init__(
        self,
        partition: int,
        error: int,
        base_offset: int = NO_OFFSET,
        log_append_time: int = -1,
        log_start_offset: int = -1,
        message: str | None = None,
        record_errors: Sequence[tuple[int, str | None]] = (),
    ) -> None:
        self.partition = partition
        self.error = error
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.message = message
        self.record_errors = record_errors


def read_request(frame: memoryview, body_at: int, version: int) -> ProduceRequest:
    """Raises MalformedRequest."""
    try:
        if version >= FLEXIBLE_FROM:
            return _read_flexible(frame, body_at, version)
        return _read_plain(frame, body_at)
    except StructError as error:
        raise MalformedRequest(f"the Produce request is cut off: {error}") from error


def _read_plain(frame: memoryview, at: int) -> ProduceRequest:
    transactional_id, at = read_string(frame, at)
    acks, timeout_ms, topic_count = _FIXED.unpack_from(frame, at)
    at += 10
    end = len(frame)
    topics: list[tuple[str | bytes, list[tuple[int, int, int]]]] = []
    if topic_count > _MOST_PARTITIONS:
        raise _too_many()
    remaining = _MOST_PARTITIONS - topic_count if topic_count > 0 else 0
    for _ in range(topic_count):
        name, at = read_string(frame, at)
        (count,) = I32.unpack_from(frame, at)
        at += 4
        if count > remaining:
            raise _too_many()
        if count > 0:
            remaining -= count
        partitions = []
        for _ in range(count):
            index, length = _PARTITION.unpack_from(frame, at)
            at += 8
            partitions.append((index, at, length))
            if length > 0:
                at += length
                if at > end:
                    raise MalformedRequest(f"records of {length} bytes do not fit in the request")
        topics.append((_not_null(name), partitions))
    return ProduceRequest(acks, timeout_ms, transactional_id, topics)


def _read_flexible(frame: memoryview, at: int, version: int) -> ProduceRequest:
    transactional_id, at = read_compact_string(frame, at)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, at)
    topic_count, at = read_uvarint(frame, at + 6)
    end = len(frame)
    topics: list[tuple[str | bytes, list[tuple[int, int, int]]]] = []
    if topic_count > _MOST_PARTITIONS + 1:
        raise _too_many()
    # The length of a compact array is one more than its number of elements.
    remaining = _MOST_PARTITIONS + 1
    for _ in range(topic_count - 1):
        topic: str | bytes
        if version >= TOPIC_IDS_FROM:
            topic = bytes(frame[at : at + 16])
            at += 16
        else:
            name, at = read_compact_string(frame, at)
            topic = _not_null(name)
        count, at = read_uvarint(frame, at)
        if count > remaining:
            raise _too_many()
        remaining -= count
        partitions = []
        for _ in range(count - 1):
            (index,) = I32.unpack_from(frame, at)
            length, at = read_uvarint(frame, at + 4)
            length -= 1
            partitions.append((index, at, length))
            if length > 0:
                at += length
            if at >= end:
                raise MalformedRequest(f"records of {length} bytes do not fit in the request")
            at = at + 1 if frame[at] == 0 else skip_tags(frame, at)
        topics.append((topic, partitions))
        at = skip_tags(frame, at)
    return ProduceRequest(acks, timeout_ms, transactional_id, topics)


def _too_many() -> MalformedRequest:
    return MalformedRequest(f"too many topics and partitions, at most {_MOST_PARTITIONS} are allowed")


def _not_null(name: str | None) -> str:
    if name is None:
        raise MalformedRequest("a topic name is null")
    return name


def pack_response(
    version: int,
    topics: Sequence[tuple[str | bytes, Sequence[PartitionResult]]],
    throttle_ms: int,
    hints: LeaderHints | None = None,
) -> bytes:
    """The body of a Produce response; topics have the name or id of the request."""
    flexible = version >= FLEXIBLE_FROM
    if len(topics) == 1 and hints is None:
        topic, results = topics[0]
        if not flexible:
            return _pack_one_topic(version, topic, results, throttle_ms)
        if len(results) == 1 and not results[0].record_errors and results[0].message is None:
            return _pack_one_partition(topic, results[0], throttle_ms)
    parts = [array_length(len(topics), flexible=flexible)]
    for topic, results in topics:
        if isinstance(topic, bytes):
            parts.append(topic)
        else:
            parts.append(compact_string(topic) if flexible else string(topic))
        parts.append(array_length(len(results), flexible=flexible))
        for result in results:
            _pack_result(parts, result, version)
            leader = hints and hints.leaders.get((topic, result.partition))
            if leader is not None:
                # This replaces the empty tags.
                parts.append(parts.pop()[:-1] + b"\x01" + current_leader(0, leader))
        if flexible:
            parts.append(EMPTY_TAGS)
    parts.append(I32.pack(throttle_ms))
    if flexible:
        parts.append(response_tags(hints))
    return b"".join(parts)


def _pack_one_topic(version: int, topic: str | bytes, results: Sequence[PartitionResult], throttle_ms: int) -> bytes:
    """The usual response to older clients, packed with few lists."""
    assert isinstance(topic, str)
    raw = topic.encode()
    parts = [_ONE_TOPIC.pack(1, len(raw)), raw, I32.pack(len(results))]
    for result in results:
        _pack_result(parts, result, version)
    parts.append(I32.pack(throttle_ms))
    return b"".join(parts)


def _pack_one_partition(topic: str | bytes, result: PartitionResult, throttle_ms: int) -> bytes:
    """The usual response to newer clients, without error messages."""
    name = topic if isinstance(topic, bytes) else compact_string(topic)
    fixed = _ONE_RESULT.pack(
        _ONE_FLEXIBLE,
        result.partition,
        result.error,
        result.base_offset,
        result.log_append_time,
        result.log_start_offset,
        _END_OF_ONE,
        throttle_ms,
        EMPTY_TAGS,
    )
    return b"".join((_ONE_FLEXIBLE, name, fixed))


def _pack_result(parts: list[bytes], result: PartitionResult, version: int) -> None:
    fixed = (result.partition, result.error, result.base_offset, result.log_append_time)
    if version < 5:
        parts.append(_RESULT_V3.pack(*fixed))
        return
    parts.append(_RESULT_V5.pack(*fixed, result.log_start_offset))
    if version < 8:
        return
    if not result.record_errors and result.message is None:
        parts.append(_NO_ERRORS_FLEXIBLE if version >= FLEXIBLE_FROM else _NO_ERRORS)
        return
    flexible = version >= FLEXIBLE_FROM
    text = compact_string if flexible else string
    tags = EMPTY_TAGS if flexible else b""
    parts.append(array_length(len(result.record_errors), flexible=flexible))
    for index, message in result.record_errors:
        parts += (I32.pack(index), text(message), tags)
    parts += (text(result.message), tags)


_ACKS_TIMEOUT = Struct(">hi")
_ONE_TOPIC = Struct(">ih")
_NO_ERRORS = I32.pack(0) + string(None)
_NO_ERRORS_FLEXIBLE = uvarint(1) + compact_string(None) + EMPTY_TAGS
_ONE_FLEXIBLE = uvarint(2)
"""The length of an array of one element."""
_END_OF_ONE = _NO_ERRORS_FLEXIBLE + EMPTY_TAGS
"""The end of the only partition and of the only topic."""
_ONE_RESULT = Struct(f">1sihqqq{len(_END_OF_ONE)}si1s")
