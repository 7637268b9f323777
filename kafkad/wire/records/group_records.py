"""The records of `__consumer_offsets` as bytes: reads all versions, writes the versions of Apache Kafka 4.3.

Committed offsets are the most frequent records, so `offset_records` reads and writes them by hand; the other kinds have
schemas here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kafkad.core.groups.records import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupCurrentMemberAssignmentRemoved,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMemberMetadataRemoved,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataRemoved,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupPartitionMetadataRemoved,
    ConsumerGroupRegularExpression,
    ConsumerGroupRegularExpressionRemoved,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMemberRemoved,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupTargetAssignmentMetadataRemoved,
    GroupMember,
    GroupMetadata,
    GroupMetadataRemoved,
    GroupRecord,
    OffsetCommitted,
    OffsetRemoved,
    PartitionRacks,
    SubscribedTopic,
    TopicPartitions,
)
from kafkad.wire.primitives import I16
from kafkad.wire.records.offset_records import decode_offset, encode_offset_committed, encode_offset_removed
from kafkad.wire.records.record_schema import (
    INT8,
    INT32,
    INT64,
    UUID_FORM,
    Fields,
    Form,
    MalformedRecord,
    Tagged,
    array,
    blob,
    nullable,
    read_all,
    repeated,
    structure,
    text,
)

_GROUP_METADATA_VERSIONS = range(5)
_GROUP_METADATA_FLEXIBLE_FROM = 4
_GROUP_METADATA_WRITTEN = 3
"""Apache Kafka reads the flexible version 4 but does not write it yet."""


class _Kind(NamedTuple):
    """`values` has the schema of each version of the value; `written` is the version to write."""

    name: str
    key: Fields
    values: tuple[Fields, ...]
    written: int
    record_type: Callable[..., Any]
    tombstone_type: Callable[..., Any]


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value; the value of a tombstone is None."""
    if type(record) is OffsetCommitted:
        return encode_offset_committed(record)
    if type(record) is OffsetRemoved:
        return encode_offset_removed(record), None
    key_type = _KEY_TYPES[type(record)]
    kind = _KINDS[key_type]
    key = I16.pack(key_type) + kind.key.write(record)
    if type(record) is kind.tombstone_type:
        return key, None
    return key, I16.pack(kind.written) + kind.values[kind.written].write(record)


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """The record; None for an unknown type of key. Raises MalformedRecord."""
    if len(key) < I16.size:
        raise MalformedRecord(f"a key of {len(key)} bytes")
    (key_type,) = I16.unpack_from(key)
    if key_type in (0, 1):
        return decode_offset(key, value)
    kind = _KINDS.get(key_type)
    if kind is None:
        return None
    fields = read_all(kind.key, memoryview(key), I16.size, f"the key of {kind.name}")
    record: GroupRecord
    record = kind.tombstone_type(**fields) if value is None else kind.record_type(**fields, **_read_value(kind, value))
    return record


def _read_value(kind: _Kind, value: bytes) -> dict[str, Any]:
    version = I16.unpack_from(value)[0] if len(value) >= I16.size else -1
    if not 0 <= version < len(kind.values):
        raise MalformedRecord(
            f"the value of {kind.name} has version {version}; supported are 0 to {len(kind.values) - 1}"
        )
    return read_all(kind.values[version], memoryview(value), I16.size, f"the value of {kind.name} version {version}")


def _group_metadata(version: int) -> Fields:
    flexible = version >= _GROUP_METADATA_FLEXIBLE_FROM
    name, optional, raw = text(flexible=flexible), text(flexible=flexible, nullable=True), blob(flexible=flexible)
    member: dict[str, Form] = {"member_id": name}
    if version >= 3:
        member["group_instance_id"] = optional
    member |= {"client_id": name, "client_host": name}
    if version >= 1:
        member["rebalance_timeout"] = INT32
    member |= {"session_timeout": INT32, "subscription": raw, "assignment": raw}
    group = {"protocol_type": name, "generation": INT32, "protocol": optional, "leader": optional}
    if version >= 2:
        group["current_state_timestamp"] = INT64
    tagged: dict[int, Tagged] | None = {} if flexible else None
    members = array(structure(GroupMember, Fields(member, tagged)), flexible=flexible)
    return Fields(group | {"members": members}, tagged)


# The following values are flexible from version 0 on; keys never are.
_TEXT = text(flexible=True)
_OPTIONAL = text(flexible=True, nullable=True)
_TEXTS = array(_TEXT, flexible=True)
_INTS = array(INT32, flexible=True)
_KEY_TEXT = text(flexible=False)

_GROUP_KEY = Fields({"group_id": _KEY_TEXT})
_MEMBER_KEY = Fields({"group_id": _KEY_TEXT, "member_id": _KEY_TEXT})
_PATTERN_KEY = Fields({"group_id": _KEY_TEXT, "regular_expression": _KEY_TEXT})

_RACKS = structure(PartitionRacks, Fields({"partition": INT32, "racks": _TEXTS}, {}))
_TOPIC = Fields(
    {
        "topic_id": UUID_FORM,
        "topic_name": _TEXT,
        "num_partitions": INT32,
        "partition_metadata": array(_RACKS, flexible=True),
    },
    {},
)
_PROTOCOL = structure(ClassicProtocol, Fields({"name": _TEXT, "metadata": blob(flexible=True)}, {}))
_CLASSIC_MEMBER = structure(
    ClassicMemberMetadata,
    Fields({"session_timeout_ms": INT32, "supported_protocols": array(_PROTOCOL, flexible=True)}, {}),
)
_NO_CLASSIC_MEMBER = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())
"""Kafka's default of this field is not null: null is written, and this value is omitted."""
_MEMBER = Fields(
    {
        "instance_id": _OPTIONAL,
        "rack_id": _OPTIONAL,
        "client_id": _TEXT,
        "client_host": _TEXT,
        "subscribed_topic_names": repeated(_TEXTS),
        "subscribed_topic_regex": _OPTIONAL,
        "rebalance_timeout_ms": INT32,
        "server_assignor": _OPTIONAL,
    },
    {0: Tagged("classic_member_metadata", nullable(_CLASSIC_MEMBER), _NO_CLASSIC_MEMBER)},
)
_PARTITIONS = structure(TopicPartitions, Fields({"topic_id": UUID_FORM, "partitions": _INTS}, {}))
_ASSIGNED = structure(
    AssignedPartitions,
    Fields(
        {"topic_id": UUID_FORM, "partitions": _INTS},
        {0: Tagged("assignment_epochs", array(INT32, flexible=True, nullable=True), ())},
    ),
)
_CURRENT = Fields(
    {
        "member_epoch": INT32,
        "previous_member_epoch": INT32,
        "state": INT8,
        "assigned_partitions": array(_ASSIGNED, flexible=True),
        "partitions_pending_revocation": array(_ASSIGNED, flexible=True),
    },
    {},
)

_KINDS = {
    2: _Kind(
        "GroupMetadata",
        _GROUP_KEY,
        tuple(map(_group_metadata, _GROUP_METADATA_VERSIONS)),
        _GROUP_METADATA_WRITTEN,
        GroupMetadata,
        GroupMetadataRemoved,
    ),
    3: _Kind(
        "ConsumerGroupMetadata",
        _GROUP_KEY,
        (Fields({"epoch": INT32}, {0: Tagged("metadata_hash", INT64, 0)}),),
        0,
        ConsumerGroupMetadata,
        ConsumerGroupMetadataRemoved,
    ),
    4: _Kind(
        "ConsumerGroupPartitionMetadata",
        _GROUP_KEY,
        (Fields({"topics": array(structure(SubscribedTopic, _TOPIC), flexible=True)}, {}),),
        0,
        ConsumerGroupPartitionMetadata,
        ConsumerGroupPartitionMetadataRemoved,
    ),
    5: _Kind(
        "ConsumerGroupMemberMetadata",
        _MEMBER_KEY,
        (_MEMBER,),
        0,
        ConsumerGroupMemberMetadata,
        ConsumerGroupMemberMetadataRemoved,
    ),
    6: _Kind(
        "ConsumerGroupTargetAssignmentMetadata",
        _GROUP_KEY,
        (Fields({"assignment_epoch": INT32}, {0: Tagged("assignment_timestamp", INT64, 0)}),),
        0,
        ConsumerGroupTargetAssignmentMetadata,
        ConsumerGroupTargetAssignmentMetadataRemoved,
    ),
    7: _Kind(
        "ConsumerGroupTargetAssignmentMember",
        _MEMBER_KEY,
        (Fields({"topic_partitions": array(_PARTITIONS, flexible=True)}, {}),),
        0,
        ConsumerGroupTargetAssignmentMember,
        ConsumerGroupTargetAssignmentMemberRemoved,
    ),
    8: _Kind(
        "ConsumerGroupCurrentMemberAssignment",
        _MEMBER_KEY,
        (_CURRENT,),
        0,
        ConsumerGroupCurrentMemberAssignment,
        ConsumerGroupCurrentMemberAssignmentRemoved,
    ),
    16: _Kind(
        "ConsumerGroupRegularExpression",
        _PATTERN_KEY,
        (Fields({"topics": _TEXTS, "version": INT64, "timestamp": INT64}, {}),),
        0,
        ConsumerGroupRegularExpression,
        ConsumerGroupRegularExpressionRemoved,
    ),
}
_KEY_TYPES = {
    record_type: key_type
    for key_type, kind in _KINDS.items()
    for record_type in (kind.record_type, kind.tombstone_type)
}
