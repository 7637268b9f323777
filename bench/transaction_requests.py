"""Encode the requests of a transactional producer: the steps of a transaction of clients before KIP-890.

Both brokers support these requests, and librdkafka sends them. Batches are encoded before a measurement.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import crc32c

from bench.requests import compact_array, compact_string, framed, record_batch, uvarint

_ALL_IN_SYNC = -1
_TIMEOUT_MS = 60_000
_IS_TRANSACTIONAL = 0x10
_CHECKED_AT = 21
_ATTRIBUTES_AT = 21
_PRODUCER_AT = 43


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """The identity of a transactional producer."""

    transactional_id: str
    producer_id: int
    epoch: int


def init_producer_id(transactional_id: str) -> bytes:
    """InitProducerId v4 of a producer without an id."""
    return framed(22, 4, compact_string(transactional_id) + struct.pack(">iqh", _TIMEOUT_MS, -1, -1) + b"\0")


def add_partition(producer: Producer, topic: str, partition: int) -> bytes:
    """AddPartitionsToTxn v3 of one partition."""
    topics = compact_array([compact_string(topic) + compact_array([struct.pack(">i", partition)]) + b"\0"])
    return framed(24, 3, _head(producer) + topics + b"\0")


def end(producer: Producer) -> bytes:
    """EndTxn v3: commit."""
    return framed(26, 3, _head(producer) + b"\1\0")


def produce(producer: Producer, topic: str, batches: Mapping[int, bytes]) -> bytes:
    """Produce v9 within a transaction."""
    partitions = [
        struct.pack(">i", partition) + uvarint(len(batch) + 1) + batch + b"\0" for partition, batch in batches.items()
    ]
    topics = compact_array([compact_string(topic) + compact_array(partitions) + b"\0"])
    head = compact_string(producer.transactional_id) + struct.pack(">hi", _ALL_IN_SYNC, 30_000)
    return framed(0, 9, head + topics + b"\0")


def transactional_batch(producer: Producer, sequence: int, records: int, record_size: int) -> bytes:
    """A batch of the producer's open transaction."""
    batch = bytearray(record_batch(records, record_size))
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, _IS_TRANSACTIONAL)
    struct.pack_into(">qhi", batch, _PRODUCER_AT, producer.producer_id, producer.epoch, sequence)
    struct.pack_into(">I", batch, _CHECKED_AT - 4, crc32c.crc32c(bytes(batch[_CHECKED_AT:])))
    return bytes(batch)


def _head(producer: Producer) -> bytes:
    return compact_string(producer.transactional_id) + struct.pack(">qh", producer.producer_id, producer.epoch)
