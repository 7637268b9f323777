"""Committed offsets of `__consumer_offsets` as bytes, by hand: a log may contain millions, all read at the start.

Keys of types 0 and 1 have the same layout. Values are read in versions 0 to 4 and written as in Apache Kafka 4.3:
version 1 if the commit has an expire timestamp, else version 4.
"""

from functools import lru_cache
from struct import Struct, error
from uuid import UUID

from kafkad.core.groups.records import OffsetCommitted, OffsetRemoved
from kafkad.core.types import NO_LEADER_EPOCH, NO_TIMESTAMP, NO_TOPIC_ID
from kafkad.wire.primitives import I16, I32, MalformedRequest, compact_string, read_slice, read_uvarint, string
from kafkad.wire.records.record_schema import MalformedRecord

_KEY_TYPE = I16.pack(1)
_WITH_EXPIRY, _FLEXIBLE, _NEWEST = 1, 4, 4
_OFFSET = Struct(">hq")
_OFFSET_AND_EPOCH = Struct(">hqi")
_ONE_TIME = Struct(">q")
_TWO_TIMES = Struct(">qq")
_TOPIC_ID = b"\x01\x00\x10"
"""One tagged field with tag 0 and 16 bytes."""


def encode_offset_committed(record: OffsetCommitted) -> tuple[bytes, bytes]:
    key = _key(record.group_id, record.topic, record.partition)
    if record.expire_timestamp != NO_TIMESTAMP:
        times = _TWO_TIMES.pack(record.commit_timestamp, record.expire_timestamp)
        return key, _OFFSET.pack(_WITH_EXPIRY, record.offset) + string(record.metadata) + times
    head = _OFFSET_AND_EPOCH.pack(_FLEXIBLE, record.offset, record.leader_epoch)
    tags = b"\0" if record.topic_id == NO_TOPIC_ID else _TOPIC_ID + record.topic_id.bytes
    return key, head + compact_string(record.metadata) + _ONE_TIME.pack(record.commit_timestamp) + tags


def encode_offset_removed(record: OffsetRemoved) -> bytes:
    return _key(record.group_id, record.topic, record.partition)


def decode_offset(key: bytes, value: bytes | None) -> OffsetCommitted | OffsetRemoved:
    """`key` has type 0 or 1. Raises MalformedRecord."""
    try:
        (size,) = I16.unpack_from(key, 2)
        group_end = 4 + size
        (size,) = I16.unpack_from(key, group_end)
        topic_end = group_end + 2 + size
        if size < 0 or group_end < 4:
            raise MalformedRecord("a name is null")
        group_id, topic = str(key[4:group_end], "utf-8"), str(key[group_end + 2 : topic_end], "utf-8")
        (partition,) = I32.unpack_from(key, topic_end)
        if value is None:
            return OffsetRemoved(group_id, topic, partition)
        return OffsetCommitted(group_id, topic, partition, *_read_value(value))
    except (error, ValueError, IndexError, MalformedRequest) as broken:
        length = "no" if value is None else len(value)
        raise MalformedRecord(f"a committed offset, key of {len(key)}, value of {length} bytes: {broken}") from broken


def _key(group_id: str, topic: str, partition: int) -> bytes:
    return _KEY_TYPE + string(group_id) + string(topic) + I32.pack(partition)


def _read_value(value: bytes) -> tuple[int, int, str, int, int, UUID]:
    """Offset, leader epoch, metadata, commit and expire timestamp, topic id."""
    version, offset = _OFFSET.unpack_from(value)
    if version == _FLEXIBLE:
        return _read_flexible(value)
    if not 0 <= version <= _NEWEST:
        raise MalformedRecord(f"version {version}; supported are 0 to {_NEWEST}")
    at, leader_epoch, expires = _OFFSET.size, NO_LEADER_EPOCH, NO_TIMESTAMP
    if version >= 3:
        _, _, leader_epoch = _OFFSET_AND_EPOCH.unpack_from(value)
        at = _OFFSET_AND_EPOCH.size
    (size,) = I16.unpack_from(value, at)
    if size < 0:
        raise MalformedRecord("the metadata is null")
    start = at + 2
    end = start + size
    if version == _WITH_EXPIRY:
        commits, expires = _TWO_TIMES.unpack_from(value, end)
    else:
        (commits,) = _ONE_TIME.unpack_from(value, end)
    return offset, leader_epoch, str(value[start:end], "utf-8"), commits, expires, NO_TOPIC_ID


def _read_flexible(value: bytes) -> tuple[int, int, str, int, int, UUID]:
    _, offset, leader_epoch = _OFFSET_AND_EPOCH.unpack_from(value)
    size = value[_OFFSET_AND_EPOCH.size]
    start = _OFFSET_AND_EPOCH.size + 1
    if size >= 0x80:
        size, start = read_uvarint(memoryview(value), _OFFSET_AND_EPOCH.size)
    if size == 0:
        raise MalformedRecord("the metadata is null")
    end = start + size - 1
    (commits,) = _ONE_TIME.unpack_from(value, end)
    metadata = str(value[start:end], "utf-8") if size > 1 else ""
    topic_id = _read_topic_id(value, end + _ONE_TIME.size)
    return offset, leader_epoch, metadata, commits, NO_TIMESTAMP, topic_id


def _read_topic_id(value: bytes, at: int) -> UUID:
    if value[at : at + 3] == _TOPIC_ID and len(value) == at + 3 + 16:
        return _uuid(value[at + 3 :])
    view = memoryview(value)
    count, at = read_uvarint(view, at)
    topic_id = NO_TOPIC_ID
    for _ in range(count):
        tag, at = read_uvarint(view, at)
        size, at = read_uvarint(view, at)
        content, at = read_slice(view, at, size)
        if tag == 0:
            topic_id = _uuid(bytes(content))
    return topic_id


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    """Cached, because creating a UUID takes as long as reading the rest of the record, and there are few topics."""
    return UUID(bytes=raw)
