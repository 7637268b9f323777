"""The Fetch and ListOffsets requests of a follower, by hand: records in a response are located, never copied or read.

Fetch has topic ids in versions 13 to 17 and names in version 12; ListOffsets uses the fields that versions 6 to 9 have
in common. Reading arbitrary bytes returns a value or raises `MalformedRequest`.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kafkad.core.replication.following.requests import (
    FULL,
    Fetched,
    FollowerFetch,
    OffsetListed,
    OffsetQuery,
    PartitionFetched,
    PartitionToFetch,
)
from kafkad.core.types import NO_LEADER_EPOCH
from kafkad.wire.primitives import (
    EMPTY_TAGS,
    I32,
    MalformedRequest,
    compact_string,
    read_compact_string,
    read_slice,
    read_uvarint,
    skip_tags,
    uvarint,
)

WITH_NAMES = 12
"""The version of Fetch with topic names; later versions have topic ids."""
_REPLICA_STATE_FROM = 15
"""The first version of Fetch with the replica id and epoch in a tagged field (KIP-903)."""

_LIMITS = Struct(">iiibii")
_ROW = Struct(">iiqiqi")
_REPLICA_STATE = Struct(">BBBiqB")
_RESPONSE_HEAD = Struct(">ihi")
_RESPONSE_ROW = Struct(">ihqqq")
_DIVERGING = Struct(">iq")
_OFFSET_ROW = Struct(">iiq")
_LISTED = Struct(">ihqqi")
_ABORTED_BYTES = 17
_MOST_ROWS = 1_000_000


class FetchLimits(NamedTuple):
    """replica.fetch.wait.max.ms, replica.fetch.min.bytes, replica.fetch.response.max.bytes, replica.fetch.max.bytes."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


def encode_fetch(
    fetch: FollowerFetch, limits: FetchLimits, replica_id: int, broker_epoch: int, newest: int
) -> tuple[int, bytes]:
    """(version, body): version `newest` with topic ids, or version 12 with names."""
    version = newest if fetch.uses_topic_ids else WITH_NAMES
    has_state = version >= _REPLICA_STATE_FROM
    head = _LIMITS.pack(
        limits.max_wait_ms, limits.min_bytes, limits.max_bytes, 0, fetch.session_id, fetch.session_epoch
    )
    parts = [head] if has_state else [I32.pack(replica_id), head]
    # The leader fills a full response in the order of the request. A topic may occur several times, as in Apache Kafka.
    topics = _consecutive(fetch.partitions) if fetch.session_epoch == FULL else _by_topic(fetch.partitions)
    parts.append(uvarint(len(topics) + 1))
    for rows in topics:
        parts.append(_topic(rows[0], fetch))
        parts.append(uvarint(len(rows) + 1))
        for row in rows:
            epochs = row.current_leader_epoch, row.fetch_offset, row.last_fetched_epoch
            parts.append(_ROW.pack(row.name.partition, *epochs, row.log_start_offset, limits.partition_max_bytes))
            parts.append(EMPTY_TAGS)
        parts.append(EMPTY_TAGS)
    forgotten = _by_topic(fetch.forgotten)
    parts.append(uvarint(len(forgotten) + 1))
    for rows in forgotten:
        parts.append(_topic(rows[0], fetch))
        parts.append(uvarint(len(rows) + 1))
        parts.extend(I32.pack(row.name.partition) for row in rows)
        parts.append(EMPTY_TAGS)
    parts.append(compact_string(""))
    # Tag 1 has the replica's id and epoch: twelve bytes and an empty section of tags.
    parts.append(_REPLICA_STATE.pack(1, 1, 13, replica_id, broker_epoch, 0) if has_state else EMPTY_TAGS)
    return version, b"".join(parts)


def _consecutive(rows: Iterable[PartitionToFetch]) -> list[list[PartitionToFetch]]:
    return [list(group) for _, group in groupby(rows, key=lambda row: row.id[0])]


def _by_topic(rows: Iterable[PartitionToFetch]) -> list[list[PartitionToFetch]]:
    by_topic: dict[bytes, list[PartitionToFetch]] = {}
    for row in rows:
        by_topic.setdefault(row.id[0], []).append(row)
    return list(by_topic.values())


def _topic(row: PartitionToFetch, fetch: FollowerFetch) -> bytes:
    return row.id[0] if fetch.uses_topic_ids else compact_string(row.name.topic)


def decode_fetch(body: memoryview, version: int, at: int) -> Fetched:
    """The response; `at` is the position of the body, to which the positions of records are relative."""
    try:
        return _decode_fetch(body, version, at)
    except (StructError, IndexError) as error:
        raise MalformedRequest(f"the Fetch response is cut off: {error}") from error


def _decode_fetch(body: memoryview, version: int, at: int) -> Fetched:
    _throttle_ms, error, session_id = _RESPONSE_HEAD.unpack_from(body)
    count, position = read_uvarint(body, _RESPONSE_HEAD.size)
    partitions: list[PartitionFetched] = []
    topic: bytes | str | None
    for _ in range(_checked(count - 1)):
        if version > WITH_NAMES:
            raw, position = read_slice(body, position, 16)
            topic = bytes(raw)
        else:
            topic, position = read_compact_string(body, position)
        if topic is None:
            raise MalformedRequest("a topic name of the Fetch response is null")
        rows, position = read_uvarint(body, position)
        for _ in range(_checked(rows - 1)):
            row, position = _decode_row(body, position, topic, at)
            partitions.append(row)
        position = skip_tags(body, position)
    return Fetched(error, session_id, partitions)


def _decode_row(body: memoryview, position: int, topic: bytes | str, at: int) -> tuple[PartitionFetched, int]:
    partition, error, high_watermark, _stable, log_start = _RESPONSE_ROW.unpack_from(body, position)
    aborted, position = read_uvarint(body, position + _RESPONSE_ROW.size)
    for _ in range(_checked(aborted - 1)):
        position = skip_tags(body, position + _ABORTED_BYTES - 1)
    position += 4  # The preferred read replica is for consumers.
    length, position = read_uvarint(body, position)
    length = max(0, length - 1)
    records_at = position
    _records, position = read_slice(body, position, length)
    diverging = NO_LEADER_EPOCH, -1
    tags, position = read_uvarint(body, position)
    for _ in range(_checked(tags)):
        tag, position = read_uvarint(body, position)
        size, position = read_uvarint(body, position)
        raw, position = read_slice(body, position, size)
        if tag == 0:
            diverging = _DIVERGING.unpack_from(raw)
    row = PartitionFetched(topic, partition, error, high_watermark, log_start, *diverging, at + records_at, length)
    return row, position


def _checked(count: int) -> int:
    if count > _MOST_ROWS:
        raise MalformedRequest(f"an array has {count} elements, at most {_MOST_ROWS} are allowed")
    return count


def encode_list_offsets(rows: Sequence[OffsetQuery], replica_id: int) -> bytes:
    by_topic: dict[str, list[OffsetQuery]] = {}
    for row in rows:
        by_topic.setdefault(row.name.topic, []).append(row)
    parts = [I32.pack(replica_id), b"\x00", uvarint(len(by_topic) + 1)]
    for topic, topic_rows in by_topic.items():
        parts += (compact_string(topic), uvarint(len(topic_rows) + 1))
        for row in topic_rows:
            parts.append(_OFFSET_ROW.pack(row.name.partition, row.current_leader_epoch, row.timestamp) + EMPTY_TAGS)
        parts.append(EMPTY_TAGS)
    parts.append(EMPTY_TAGS)
    return b"".join(parts)


def decode_list_offsets(body: memoryview) -> list[OffsetListed]:
    try:
        return _decode_list_offsets(body)
    except (StructError, IndexError) as error:
        raise MalformedRequest(f"the ListOffsets response is cut off: {error}") from error


def _decode_list_offsets(body: memoryview) -> list[OffsetListed]:
    count, position = read_uvarint(body, 4)
    listed: list[OffsetListed] = []
    for _ in range(_checked(count - 1)):
        topic, position = read_compact_string(body, position)
        rows, position = read_uvarint(body, position)
        for _ in range(_checked(rows - 1)):
            partition, error, _timestamp, offset, _epoch = _LISTED.unpack_from(body, position)
            position = skip_tags(body, position + _LISTED.size)
            listed.append(OffsetListed(topic or "", partition, error, offset))
        position = skip_tags(body, position)
    return listed
