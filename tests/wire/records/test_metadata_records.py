"""Values of the KRaft metadata log, as Apache Kafka 4.3 writes them."""

from uuid import UUID

import pytest

from kafkad.wire.records.metadata_records import (
    ConfigChanged,
    MetadataRecord,
    PartitionAdded,
    TopicAdded,
    TopicRemoved,
    TransactionAborted,
    TransactionBegun,
    TransactionEnded,
    decode_metadata,
)
from kafkad.wire.records.record_schema import MalformedRecord

ID = UUID(bytes=bytes(range(16)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x01\x02\x00\x07orders" + ID.bytes + b"\0", TopicAdded("orders", ID)),
        # Replicas, isr and the rest follow, and differ between versions.
        (b"\x01\x03\x02\0\0\0\x05" + ID.bytes + b"\x02\0\0\0\x01", PartitionAdded(5, ID)),
        (b"\x01\x04\x00\x02\x07orders\x0dretention.ms\x03-1\0", ConfigChanged(2, "orders", "retention.ms", "-1")),
        (b"\x01\x04\x00\x04\x01\x0dretention.ms\x00\0", ConfigChanged(4, "", "retention.ms", None)),
        (b"\x01\x09\x00" + ID.bytes + b"\0", TopicRemoved(ID)),
        # With a name and a reason, and without.
        (b"\x01\x17\x00\x01\x00\x0a\x0aBootstrap", TransactionBegun()),
        (b"\x01\x17\x00\0", TransactionBegun()),
        (b"\x01\x18\x00\0", TransactionEnded()),
        (b"\x01\x19\x00\x01\x00\x07\x07failed", TransactionAborted()),
        (b"\x01\x19\x00\0", TransactionAborted()),
        (b"\x01\x14\x00whatever", None),
    ],
)
def test_records_about_topics_are_read_and_others_passed_over(value: bytes, expected: MetadataRecord | None) -> None:
    assert decode_metadata(value) == expected


@pytest.mark.parametrize(
    "value", [b"", b"\x01", b"\x07\x02\x00", b"\x01\x02\x00\x07or", b"\x01\x02\x00\x00" + ID.bytes]
)
def test_other_bytes_are_malformed(value: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_metadata(value)
