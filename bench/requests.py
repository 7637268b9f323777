"""Encode requests before a measurement: Produce v9, Fetch v12 and administrative requests.

The encoder is separate on purpose: the benchmark must not share code with the measured broker.
"""

import struct
import time
from collections.abc import Mapping, Sequence

import crc32c

STARTED_MS = time.time_ns() // 1_000_000
"""The timestamp of all records: retention must not delete them."""
ACKS_LEADER = 1
_NO_SESSION = -1
_TIMEOUT_MS = 30_000


def uvarint(value: int) -> bytes:
    """Unsigned variable-length integer, seven bits a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Zigzag-encoded signed integer, as in records."""
    return uvarint((value << 1) ^ (value >> 31))


def compact_string(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def compact_array(items: Sequence[bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


def framed(key: int, version: int, body: bytes, *, correlation_id: int = 7) -> bytes:
    """Length, request header v2 and body."""
    header = struct.pack(">hhih", key, version, correlation_id, 5) + b"bench" + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def record_batch(records: int, record_size: int, *, timestamp: int = STARTED_MS) -> bytes:
    """An uncompressed batch of `records` values of about `record_size` bytes each."""
    payload = bytearray()
    for delta in range(records):
        # Distinct values that are cheap to create: the broker does not decode them.
        value = (b"%012d" % delta) * (record_size // 12 + 1)
        body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(record_size) + value[:record_size] + b"\0"
        payload += varint(len(body)) + body
    head = struct.pack(">hiqqqhii", 0, records - 1, timestamp, timestamp, -1, -1, -1, records)
    checked = head + payload
    crc = crc32c.crc32c(bytes(checked))
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc) + checked


def produce(topic: str, batches: Mapping[int, bytes], *, acks: int = ACKS_LEADER) -> bytes:
    """Produce v9 with one batch for each partition."""
    partitions = [
        struct.pack(">i", partition) + uvarint(len(batch) + 1) + batch + b"\0" for partition, batch in batches.items()
    ]
    topics = compact_array([compact_string(topic) + compact_array(partitions) + b"\0"])
    return framed(0, 9, b"\0" + struct.pack(">hi", acks, _TIMEOUT_MS) + topics + b"\0")


def fetch(topic: str, partition: int, offset: int, *, max_bytes: int, wait_ms: int = 0) -> bytes:
    """Fetch v12 of one partition without a session."""
    head = struct.pack(">iiiibii", -1, wait_ms, 1, max_bytes, 0, 0, _NO_SESSION)
    request = struct.pack(">iiqiqi", partition, -1, offset, -1, -1, max_bytes) + b"\0"
    topics = compact_array([compact_string(topic) + compact_array([request]) + b"\0"])
    return framed(1, 12, head + topics + compact_array([]) + compact_string("") + b"\0")


def create_topics(topics: Mapping[str, int], configs: Mapping[str, str]) -> bytes:
    """CreateTopics v7: partitions by topic name, one replica each."""
    pairs = compact_array([compact_string(k) + compact_string(v) + b"\0" for k, v in configs.items()])
    created = [
        compact_string(name) + struct.pack(">ih", partitions, 1) + compact_array([]) + pairs + b"\0"
        for name, partitions in topics.items()
    ]
    return framed(19, 7, compact_array(created) + struct.pack(">ib", 60_000, 0) + b"\0")


def delete_topics(names: Sequence[str]) -> bytes:
    """DeleteTopics v5, by name."""
    return framed(20, 5, compact_array([compact_string(name) for name in names]) + struct.pack(">i", 60_000) + b"\0")


def metadata(topics: Sequence[str] | None = None) -> bytes:
    """Metadata v12 of these topics, or of all topics, without auto-creation."""
    named = (
        b"\0" if topics is None
        else compact_array([bytes(16) + compact_string(name) + b"\0" for name in topics])
    )  # fmt: skip
    return framed(3, 12, named + b"\0\0\0")


def latest_offsets(topics: Mapping[str, int]) -> bytes:
    """ListOffsets v7 for the end of every partition of the topics."""
    request = [
        compact_string(name)
        + compact_array([struct.pack(">iiq", partition, -1, -1) + b"\0" for partition in range(count)])
        + b"\0"
        for name, count in topics.items()
    ]
    return framed(2, 7, struct.pack(">ib", -1, 0) + compact_array(request) + b"\0")
