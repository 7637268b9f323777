"""How are the records of a batch read, and how is a batch built from records?

Compaction, timestamp look-ups, tools and produce to compacted topics need this; produce and fetch otherwise do not read
records. Any bytes result in records or in `MalformedRecords`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from kafkad.core.log.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Codec,
    CorruptBatch,
    pack_header,
    read_header,
)
from kafkad.core.log.records.compression import (
    MAX_DECOMPRESSED_BYTES,
    DecompressedTooLarge,
    DecompressionFailed,
    compress,
    decompress,
)
from kafkad.core.log.records.record_headers import Headers, check_count, end_of_headers, read_bytes, read_headers
from kafkad.core.log.records.varint import append_varint, read_varint, read_varlong
from kafkad.core.log.settings import LogConfig
from kafkad.core.types import NO_LEADER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

SMALLEST_RECORD = 7
"""Length, attributes, two deltas, two null lengths and a header count: one byte each."""

_CHECKSUM_SIZE = 4
_ONE_BYTE_LENGTHS = 0x40
"""Lengths below this one are one byte, zigzag."""

_CODEC_OF_TYPE = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec}}


class MalformedRecords(Exception):
    """The records of a batch are unreadable."""


class MalformedBatch(MalformedRecords):
    """The header of the batch is unreadable too."""


class UndecodableRecords(MalformedRecords):
    """Decompression failed."""


class TooManyRecords(MalformedRecords):
    """The records, or their headers, exceed the limit of the reader."""


class Record(NamedTuple):
    """A record as encoded in its batch. A tuple for speed: compaction reads millions."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class NewRecord(NamedTuple):
    """A record to be written; `offset_delta` None: one more than the previous."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    offset_delta: int | None = None


_ReadHeaders = Callable[[bytes, int, int, int], tuple[Headers, int]]
"""(body, start of the headers, end of the record, number of headers) to (headers, end of the headers)."""


def iter_records(
    batch: memoryview, *, max_bytes: int = MAX_DECOMPRESSED_BYTES, max_headers: int | None = None
) -> Iterator[Record]:
    """The records of the one batch in `batch`. Raises `TooManyRecords` above `max_bytes` of decompressed records or
    `max_headers` headers of all records together.
    """
    return _iter(
        batch, max_bytes, read_headers if max_headers is None else _HeaderLimit(max_headers, read_headers).read
    )


def iter_without_headers(batch: memoryview, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """The same records without headers: the bytes after the value of a record are not read."""
    return _iter(batch, max_bytes, _skip_headers)


def iter_checked(batch: memoryview, *, max_bytes: int, max_headers: int) -> Iterator[Record]:
    """The same records without headers, which are only checked; at most `max_headers` in all records."""
    return _iter(batch, max_bytes, _HeaderLimit(max_headers, _check_headers).read)


def _iter(batch: memoryview, max_bytes: int, read: _ReadHeaders) -> Iterator[Record]:
    header, body = _open_batch(batch, max_bytes)
    position = 0
    try:
        for _ in range(header.records_count):
            record, position = _read_record(body, position, read)
            yield record
    except (IndexError, ValueError) as error:
        raise MalformedRecords(f"the record at byte {position} of the records is malformed: {error}") from error
    if header.records_count < 0 or position != len(body):
        raise MalformedRecords(
            f"the batch claims {header.records_count} records, {len(body) - position} bytes follow them"
        )


def _skip_headers(body: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    check_count(position, end, count)
    return (), end


def _check_headers(body: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    return (), end_of_headers(body, position, end, count)


class _HeaderLimit:
    """Reads at most `max_headers` headers of one batch."""

    def __init__(self, max_headers: int, read: _ReadHeaders) -> None:
        self._max_headers = max_headers
        self._remaining = max_headers
        self._read = read

    def read(self, body: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
        if count > self._remaining:
            raise TooManyRecords(f"the records exceed the limit of {self._max_headers} headers")
        self._remaining -= count
        return self._read(body, position, end, count)


def record_timestamp(header: BatchHeader, record: Record) -> int:
    """The timestamp of a record; with LogAppendTime that of its batch."""
    if header.is_log_append_time:
        return header.max_timestamp
    return header.base_timestamp + record.timestamp_delta


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    last_offset_delta: int | None = None,
    log_append_time: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """One batch of `records`, as a Kafka producer (with the last three parameters, a broker) writes it."""
    timestamps = [record.timestamp for record in records]
    base_timestamp = timestamps[0] if timestamps else NO_TIMESTAMP
    max_timestamp = max(timestamps, default=NO_TIMESTAMP)
    attributes = int(codec) | TRANSACTIONAL_FLAG * is_transactional | CONTROL_FLAG * is_control
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = delete_horizon_ms
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME_FLAG
        max_timestamp = log_append_time
    body, last_delta = _encode_records(records, base_timestamp)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_delta if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )
    return seal_batch(header, compress(codec, body, level))


def target_codec(header: BatchHeader, config: LogConfig) -> int:
    """The codec required by the topic; control batches keep theirs."""
    if config.compression_type == "producer" or header.is_control:
        return header.codec_bits
    return _CODEC_OF_TYPE[config.compression_type]


def recompress(batch: memoryview, config: LogConfig, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The same batch with the codec and level of the topic; the records are not decoded.

    Raises `CompressedTooLarge` if the result exceeds max.message.bytes.
    """
    header, body = _open_batch(batch, max_bytes)
    codec = target_codec(header, config)
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    attributes = header.attributes & ~CODEC_MASK | codec
    packed = compress(codec, body, levels.get(Codec(codec)), config.max_message_bytes)
    return seal_batch(header._replace(attributes=attributes), packed)


def _open_batch(batch: memoryview, max_bytes: int) -> tuple[BatchHeader, bytes]:
    try:
        header = read_header(batch)
    except CorruptBatch as corrupt:
        raise MalformedBatch(corrupt.reason) from corrupt
    if header.magic != MAGIC or header.size < HEADER_SIZE or header.size > len(batch):
        raise MalformedRecords(
            f"expected one batch of magic {MAGIC}, found magic {header.magic}, size {header.size} in {len(batch)} bytes"
        )
    try:
        return header, decompress(header.codec_bits, batch[HEADER_SIZE : header.size], max_bytes)
    except DecompressedTooLarge as too_large:
        raise TooManyRecords(str(too_large)) from too_large
    except DecompressionFailed as damaged:
        raise UndecodableRecords(str(damaged)) from damaged


def _read_record(body: bytes, position: int, read: _ReadHeaders) -> tuple[Record, int]:
    length, position = read_varint(body, position)
    end = position + length
    if length < 0 or end > len(body):
        raise ValueError(f"expected {length} bytes, {len(body) - position} remain")
    timestamp_delta, position = read_varlong(body, position + 1)
    offset_delta, position = read_varint(body, position)
    key, position = read_bytes(body, position, end)
    value, position = read_bytes(body, position, end)
    count, position = read_varint(body, position)
    headers: Headers = ()
    if count:
        headers, position = read(body, position, end, count)
    if position != end:
        raise ValueError(f"expected {length} bytes, its fields have {length + position - end}")
    return Record(offset_delta, timestamp_delta, key, value, headers), end


def _encode_records(records: Sequence[NewRecord], base_timestamp: int) -> tuple[bytes, int]:
    """The encoded records, and the offset delta of the last one."""
    out = bytearray()
    delta = -1
    for record in records:
        delta = delta + 1 if record.offset_delta is None else record.offset_delta
        inner = bytearray(b"\0")
        append_varint(inner, record.timestamp - base_timestamp)
        append_varint(inner, delta)
        _append_bytes(inner, record.key)
        _append_bytes(inner, record.value)
        append_varint(inner, len(record.headers))
        for key, value in record.headers:
            _append_bytes(inner, key.encode())
            _append_bytes(inner, value)
        append_varint(out, len(inner))
        out += inner
    return bytes(out), max(delta, 0)


def _append_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        append_varint(out, -1)
        return
    size = len(value)
    if size < _ONE_BYTE_LENGTHS:
        # The usual case, inline: a call costs more than the append.
        out.append(size << 1)
    else:
        append_varint(out, size)
    out += value


def seal_batch(header: BatchHeader, body: bytes) -> bytes:
    """Header and body as one batch, with length and checksum."""
    packed = pack_header(header._replace(batch_length=HEADER_SIZE + len(body) - LOG_OVERHEAD))
    covered = packed[CRC_START:]
    checksum = crc32c(body, crc32c(covered)).to_bytes(_CHECKSUM_SIZE, "big")
    return b"".join((packed[: CRC_START - _CHECKSUM_SIZE], checksum, covered, body))
