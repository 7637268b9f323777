"""Fetch and ListOffsets as a follower sends them, by hand: records in an answer are located, never copied or read.

Fetch 13 to 17 name topics by ids, 12 by names; of ListOffsets 6 to 9 a follower uses what all of them have. Reading any
bytes gives a value or raises `MalformedRequest`.
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
"""The version of Fetch that names topics; those after it have their ids."""
_REPLICA_STATE_FROM = 15
"""The version of Fetch since which the replica is in a tagged field, with its epoch (KIP-903)."""

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
    """replica.fetch.wait.max.ms and its kin."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


def encode_fetch(
    wanted: FollowerFetch, limits: FetchLimits, replica_id: int, broker_epoch: int, newest: int
) -> tuple[int, bytes]:
    """(version, body): version `newest`, which has topic ids, or the one with names."""
    version = newest if wanted.uses_topic_ids else WITH_NAMES
    has_state = version >= _REPLICA_STATE_FROM
    head = _LIMITS.pack(
        limits.max_wait_ms, limits.min_bytes, limits.max_bytes, 0, wanted.session_id, wanted.session_epoch
    )
    parts = [head] if has_state else [I32.pack(replica_id), head]
    # A full answer is filled in the order of its request, so that a topic may come several times, as in Apache Kafka.
    topics = _in_order(wanted.partitions) if wanted.session_epoch == FULL else _by_topic(wanted.partitions)
    parts.append(uvarint(len(topics) + 1))
    for rows in topics:
        parts.append(_topic(rows[0], wanted))
        parts.append(uvarint(len(rows) + 1))
        for row in rows:
            epochs = row.current_leader_epoch, row.fetch_offset, row.last_fetched_epoch
            parts.append(_ROW.pack(row.name.partition, *epochs, row.log_start_offset, limits.partition_max_bytes))
            parts.append(EMPTY_TAGS)
        parts.append(EMPTY_TAGS)
    forgotten = _by_topic(wanted.forgotten)
    parts.append(uvarint(len(forgotten) + 1))
    for rows in forgotten:
        parts.append(_topic(rows[0], wanted))
        parts.append(uvarint(len(rows) + 1))
        parts.extend(I32.pack(row.name.partition) for row in rows)
        parts.append(EMPTY_TAGS)
    parts.append(compact_string(""))
    # Tag 1 is the replica's id and epoch, twelve bytes and an empty section of tags.
    parts.append(_REPLICA_STATE.pack(1, 1, 13, replica_id, broker_epoch, 0) if has_state else EMPTY_TAGS)
    return version, b"".join(parts)


def _in_order(rows: Iterable[PartitionToFetch]) -> list[list[PartitionToFetch]]:
    return [list(group) for _, group in groupby(rows, key=lambda row: row.id[0])]


def _by_topic(rows: Iterable[PartitionToFetch]) -> list[list[PartitionToFetch]]:
    found: dict[bytes, list[PartitionToFetch]] = {}
    for row in rows:
        found.setdefault(row.id[0], []).append(row)
    return list(found.values())


def _topic(row: PartitionToFetch, wanted: FollowerFetch) -> bytes:
    return row.id[0] if wanted.uses_topic_ids else compact_string(row.name.topic)


def decode_fetch(body: memoryview, version: int, at: int) -> Fetched:
    """The answer; `at` is where the body begins in the memory that the places of records are about."""
    try:
        return _decode_fetch(body, version, at)
    except (StructError, IndexError) as error:
        raise MalformedRequest(f"the answer to a Fetch ends too early: {error}") from error


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
            raise MalformedRequest("a topic of the answer has no name")
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
        raise MalformedRequest(f"an array of {count} elements is longer than any answer")
    return count


def encode_list_offsets(rows: Sequence[OffsetQuery], replica_id: int) -> bytes:
    found: dict[str, list[OffsetQuery]] = {}
    for row in rows:
        found.setdefault(row.name.topic, []).append(row)
    parts = [I32.pack(replica_id), b"\x00", uvarint(len(found) + 1)]
    for topic, its_rows in found.items():
        parts += (compact_string(topic), uvarint(len(its_rows) + 1))
        for row in its_rows:
            parts.append(_OFFSET_ROW.pack(row.name.partition, row.current_leader_epoch, row.timestamp) + EMPTY_TAGS)
        parts.append(EMPTY_TAGS)
    parts.append(EMPTY_TAGS)
    return b"".join(parts)


def decode_list_offsets(body: memoryview) -> list[OffsetListed]:
    try:
        return _decode_list_offsets(body)
    except (StructError, IndexError) as error:
        raise MalformedRequest(f"the answer to ListOffsets ends too early: {error}") from error


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
