"""Packs a coordinator's records into a batch, and unpacks batches.

There is one batch for one outcome: the log has all of it, or nothing. Records without a key or with an unknown key type
(written by a newer broker) are skipped.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol

from kafkad.core.coordinator.shard import Moment, Producer, Record
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.batch import Codec, read_header
from kafkad.core.log.records.end_markers import read_end_marker
from kafkad.core.log.records.record import NewRecord, build_batch, iter_without_headers


class RecordCodec(Protocol[Record]):
    """Encodes and decodes records; implemented by modules with these two functions."""

    def encode(self, record: Record, /) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None, /) -> Record | None:
        """None: an unknown key type. A null value is the record's tombstone."""


class Replayed(NamedTuple, Generic[Record]):
    """A record of the log. A tuple, because loading reads millions."""

    record: Record
    offset: int
    producer: Producer | None


class Ended(NamedTuple):
    """A transaction marker of the log."""

    producer_id: int
    is_commit: bool
    offset: int


def pack_records(
    records: Sequence[Record],
    encode: Callable[[Record], tuple[bytes, bytes | None]],
    moment: Moment,
    producer: Producer | None,
    compression: Codec,
    most_bytes: int | None = None,
) -> bytearray:
    """One batch, writable because the log writes its base offset into it.

    Raises MESSAGE_TOO_LARGE as soon as it exceeds `most_bytes`: a client can cause a batch of megabytes, which would
    be copied several times before it is rejected.
    """
    rows = []
    size = 0
    for record in records:
        key, value = encode(record)
        rows.append(NewRecord(moment.wall_ms, key, value))
        size += len(key) + len(value or b"")
        if most_bytes is not None and size > most_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the records have more than {most_bytes} bytes")
    if producer is None:
        return bytearray(build_batch(rows, codec=compression))
    return bytearray(
        build_batch(
            rows,
            codec=compression,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
    )


def unpack_batch(
    batch: memoryview, decode: Callable[[bytes, bytes | None], Record | None]
) -> Iterator[Replayed[Record] | Ended]:
    """The records and markers of a batch from the log, for replay. Raises `MalformedRecords`."""
    header = read_header(batch)
    if header.is_control:
        marker = read_end_marker(batch)
        if marker is not None:
            yield Ended(header.producer_id, marker.commit, header.base_offset)
        return
    producer = Producer(header.producer_id, header.producer_epoch) if header.is_transactional else None
    base_offset = header.base_offset
    for row in iter_without_headers(batch):
        if row.key is None:
            continue
        record = decode(row.key, row.value)
        if record is not None:
            yield Replayed(record, base_offset + row.offset_delta, producer)
