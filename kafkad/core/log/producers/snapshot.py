"""Which state of a partition's producers does a `.snapshot` file contain?

Kafka's ProducerSnapshot, version 1, the only version: version, CRC-32C of all following bytes, a count, and per
producer its newest batch. Older batches are not stored: after a restart only a repetition of the newest batch is
detected as a duplicate, as in Kafka.
"""

import struct
from collections.abc import Iterable

from crc32c import crc32c

from kafkad.core.log.producers.entry import Appended, ProducerEntry

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(Exception):
    """The file is not an intact producer snapshot: rebuild the state from the log."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The content of the snapshot file for `entries`."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        )
        for entry in entries
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """The producers in a snapshot file; raises `CorruptSnapshot`."""
    start = _HEAD.size + _COUNT.size
    if len(content) < start:
        raise CorruptSnapshot(f"{len(content)} bytes are too few for a snapshot")
    version, crc = _HEAD.unpack_from(content)
    if version != _VERSION:
        raise CorruptSnapshot(f"expected version {_VERSION}, found {version}")
    computed = crc32c(memoryview(content)[_HEAD.size :])
    if crc != computed:
        raise CorruptSnapshot(f"stored checksum {crc}, computed {computed}")
    count = _COUNT.unpack_from(content, _HEAD.size)[0]
    if count < 0 or start + count * _ENTRY.size != len(content):
        raise CorruptSnapshot(f"expected {count} producers, found {len(content) - start} bytes")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(memoryview(content)[start:])]


def _entry(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> ProducerEntry:
    newest = Appended(last_sequence, last_offset, offset_delta, timestamp)
    return ProducerEntry(
        producer_id,
        producer_epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        current_txn_first_offset=current_txn_first_offset if current_txn_first_offset >= 0 else None,
        batches=[newest] if last_offset >= 0 else [],
    )
