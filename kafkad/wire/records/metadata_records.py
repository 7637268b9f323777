"""The records about topics, configurations and metadata transactions (KIP-868) in Apache Kafka's KRaft metadata log.

A value begins with three varints: the frame version, the record's type, the record's version. Other types are ignored.
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kafkad.wire.primitives import MalformedRequest, read_uvarint
from kafkad.wire.records.record_schema import INT8, INT32, UUID_FORM, Fields, MalformedRecord, read_all, text

_FRAME_VERSIONS = (0, 1)
_TOPIC, _PARTITION, _CONFIG, _REMOVE_TOPIC = 2, 3, 4, 9
_BEGIN_TRANSACTION, _END_TRANSACTION, _ABORT_TRANSACTION = 23, 24, 25


class TopicAdded(NamedTuple):
    name: str
    topic_id: UUID


class PartitionAdded(NamedTuple):
    partition_id: int
    topic_id: UUID


class ConfigChanged(NamedTuple):
    """`resource_type` as in the protocol; `value` None resets to the default."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class TopicRemoved(NamedTuple):
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class TransactionBegun:
    """The following records take effect when the transaction ends. (No tuple: tuples without fields would be equal.)"""


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """The records since the begin of the transaction take effect."""


@dataclass(frozen=True, slots=True)
class TransactionAborted:
    """The records since the begin of the transaction are discarded."""


MetadataRecord = (
    TopicAdded
    | PartitionAdded
    | ConfigChanged
    | TopicRemoved
    | TransactionBegun
    | TransactionEnded
    | TransactionAborted
)

_NAME = text(flexible=True)
# Only the first fields of each record; the others are not needed and differ between versions.
_SCHEMAS: dict[int, tuple[type[MetadataRecord], Fields]] = {
    _TOPIC: (TopicAdded, Fields({"name": _NAME, "topic_id": UUID_FORM})),
    _PARTITION: (PartitionAdded, Fields({"partition_id": INT32, "topic_id": UUID_FORM})),
    _CONFIG: (
        ConfigChanged,
        Fields(
            {
                "resource_type": INT8,
                "resource_name": _NAME,
                "name": _NAME,
                "value": text(flexible=True, nullable=True),
            }
        ),
    ),
    _REMOVE_TOPIC: (TopicRemoved, Fields({"topic_id": UUID_FORM})),
    _BEGIN_TRANSACTION: (TransactionBegun, Fields({})),
    _END_TRANSACTION: (TransactionEnded, Fields({})),
    _ABORT_TRANSACTION: (TransactionAborted, Fields({})),
}


def decode_metadata(value: bytes) -> MetadataRecord | None:
    """The record; None for other types. Raises MalformedRecord."""
    data = memoryview(value)
    try:
        frame, at = read_uvarint(data, 0)
        kind, at = read_uvarint(data, at)
        _, at = read_uvarint(data, at)
    except (MalformedRequest, IndexError) as broken:
        raise MalformedRecord(f"a metadata record of {len(value)} bytes: {broken}") from broken
    if frame not in _FRAME_VERSIONS:
        raise MalformedRecord(f"a metadata record in a frame of version {frame}, expected 0 or 1")
    schema = _SCHEMAS.get(kind)
    if schema is None:
        return None
    create, fields = schema
    return create(**read_all(fields, data, at, f"a metadata record of type {kind}"))
