"""Metadata, versions 0 to 13, by hand: reads the request, and packs the response topic by topic.

The bytes of a topic do not depend on the client, so callers may cache them for all versions with the same `layout`.
The authorized operations, which differ between clients, are the last fields and are added to each response.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from kafkad.wire.api_table import METADATA
from kafkad.wire.primitives import (
    EMPTY_TAGS,
    I16,
    I32,
    MalformedRequest,
    array_length,
    compact_string,
    read_compact_string,
    read_i32,
    read_slice,
    read_string,
    read_uvarint,
    skip_tags,
    string,
)
from kafkad.wire.request_limits import allowance_of
from kafkad.wire.steps import STEP, Reading

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 10
ERROR_CODE_FROM = 13
NO_TOPIC_ID = bytes(16)
NOT_REQUESTED = -(1 << 31)
"""The authorized operations if the client did not request them."""

_PARTITION = Struct(">hii")
_PARTITION_WITH_EPOCH = Struct(">hiii")
_LAYOUTS = (0, 1, 5, 7, 8, 9, TOPIC_IDS_FROM)
"""The versions that changed the layout of a topic in the response. Version 0 omits dead replicas."""

PartitionRow = tuple[int, int, int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""(error code, index, leader, leader epoch, replicas, in-sync replicas, offline replicas)."""
BrokerRow = tuple[int, str, int, str | None]
"""(id, host, port, rack)."""


class RequestedTopic(NamedTuple):
    """Up to version 9 topics have a name and no id; from 12 on either may be missing (None, all zero)."""

    topic_id: bytes
    name: str | None


class MetadataRequest(NamedTuple):
    """`topics` is None for all topics, in all versions."""

    topics: list[RequestedTopic] | None
    allow_auto_topic_creation: bool
    include_cluster_operations: bool
    include_topic_operations: bool


def read_request(body: memoryview, version: int) -> Reading[MetadataRequest]:
    flexible = version >= FLEXIBLE_FROM
    count, at = _read_count(body, 0, flexible=flexible)
    allowance = allowance_of(METADATA)
    allowance.take(count)
    topics: list[RequestedTopic] | None = None if count < 0 else []
    for number in range(count):
        if number % STEP == STEP - 1:
            yield
        topic_id = NO_TOPIC_ID
        if version >= TOPIC_IDS_FROM:
            raw, at = read_slice(body, at, 16)
            topic_id = bytes(raw)
        name, at = read_compact_string(body, at) if flexible else read_string(body, at)
        if name is None and version < TOPIC_IDS_FROM:
            raise MalformedRequest("a topic name is null")
        if flexible:
            if at < len(body) and body[at]:
                allowance.take(body[at])
            at = skip_tags(body, at)
        assert topics is not None
        topics.append(RequestedTopic(topic_id, name))
    if version == 0:
        if topics is None:
            raise MalformedRequest("the list of topics is null")
        topics = topics or None
    return _read_flags(body, at, version, topics)


def _read_count(body: memoryview, at: int, *, flexible: bool) -> tuple[int, int]:
    if not flexible:
        return read_i32(body, at)
    count, at = read_uvarint(body, at)
    return count - 1, at


def _read_flags(body: memoryview, at: int, version: int, topics: list[RequestedTopic] | None) -> MetadataRequest:
    flags = {"allow": True, "cluster": False, "topic": False}
    present = (("allow", version >= 4), ("cluster", 8 <= version <= 10), ("topic", version >= 8))
    for name, is_present in present:
        if is_present:
            raw, at = read_slice(body, at, 1)
            flags[name] = raw[0] != 0
    if version >= FLEXIBLE_FROM:
        skip_tags(body, at)
    return MetadataRequest(topics, flags["allow"], flags["cluster"], flags["topic"])


def layout(version: int) -> int:
    """The first version in which topics have the same bytes as in `version`."""
    return max(first for first in _LAYOUTS if first <= version)


def pack_topic(
    version: int,
    error: int,
    name: str | None,
    topic_id: bytes,
    is_internal: bool,
    partitions: Sequence[PartitionRow],
) -> bytes:
    """One topic up to its authorized operations, which `pack_response` adds.

    This does not count the errors, because the caller may cache the bytes.
    """
    flexible = version >= FLEXIBLE_FROM
    out = [I16.pack(error), compact_string(name) if flexible else string(name)]
    if version >= TOPIC_IDS_FROM:
        out.append(topic_id)
    if version >= 1:
        out.append(b"\x01" if is_internal else b"\x00")
    out.append(array_length(len(partitions), flexible=flexible))
    for row in partitions:
        _pack_partition(out, row, version)
    return b"".join(out)


def _pack_partition(out: list[bytes], row: PartitionRow, version: int) -> None:
    error, index, leader, leader_epoch, replicas, isr, offline = row
    flexible = version >= FLEXIBLE_FROM
    if version >= 7:
        out.append(_PARTITION_WITH_EPOCH.pack(error, index, leader, leader_epoch))
    else:
        out.append(_PARTITION.pack(error, index, leader))
    out.append(_broker_ids(replicas, flexible))
    out.append(_broker_ids(isr, flexible))
    if version >= 5:
        out.append(_broker_ids(offline, flexible))
    if flexible:
        out.append(EMPTY_TAGS)


@lru_cache(maxsize=4096)
def _broker_ids(ids: tuple[int, ...], flexible: bool) -> bytes:
    """Cached, because partitions have few different lists of replicas."""
    return array_length(len(ids), flexible=flexible) + b"".join(I32.pack(each) for each in ids)


def _topic_end(version: int, authorized_operations: int) -> bytes:
    """The bytes at the end of every topic of a response."""
    operations = I32.pack(authorized_operations) if version >= 8 else b""
    return operations + EMPTY_TAGS if version >= FLEXIBLE_FROM else operations


def pack_response(
    version: int,
    *,
    brokers: Iterable[BrokerRow],
    cluster_id: str | None,
    controller_id: int,
    topics: Sequence[bytes],
    unknown_ids: Sequence[bytes] = (),
    topic_operations: int = NOT_REQUESTED,
    cluster_operations: int = NOT_REQUESTED,
    error: int = 0,
) -> bytes:
    """The body, from topics of `pack_topic` for a version with the same layout.

    `unknown_ids` are packed topics too, without authorized operations.
    """
    flexible = version >= FLEXIBLE_FROM
    rows = [_pack_broker(broker, version) for broker in brokers]
    out = [I32.pack(0) if version >= 3 else b"", array_length(len(rows), flexible=flexible), *rows]
    if version >= 2:
        out.append(compact_string(cluster_id) if flexible else string(cluster_id))
    if version >= 1:
        out.append(I32.pack(controller_id))
    out.append(array_length(len(unknown_ids) + len(topics), flexible=flexible))
    for packed, operations in ((unknown_ids, NOT_REQUESTED), (topics, topic_operations)):
        if packed:
            end = _topic_end(version, operations)
            out += (end.join(packed), end)
    if 8 <= version <= 10:
        out.append(I32.pack(cluster_operations))
    if version >= ERROR_CODE_FROM:
        out.append(I16.pack(error))
    if flexible:
        out.append(EMPTY_TAGS)
    return b"".join(out)


def _pack_broker(broker: BrokerRow, version: int) -> bytes:
    broker_id, host, port, rack = broker
    if version >= FLEXIBLE_FROM:
        return I32.pack(broker_id) + compact_string(host) + I32.pack(port) + compact_string(rack) + EMPTY_TAGS
    return I32.pack(broker_id) + string(host) + I32.pack(port) + (string(rack) if version >= 1 else b"")
