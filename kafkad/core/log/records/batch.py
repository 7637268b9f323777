"""What is the layout of a record batch of magic 2, and how is its header read and changed in place?

Only the 61 bytes before the records are used. Reading a header costs well under a microsecond: produce, fetch and
recovery read one per batch. Batches are validated in validation.py; records are read in record.py.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c
from typing_extensions import Buffer

from kafkad.core.types import NO_TIMESTAMP

HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""The size of base offset and length, which `batch_length` does not include."""
SMALLEST_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD
CRC_START = 21
"""The checksum covers the bytes from the attributes on: offset, length, epoch and magic may change."""
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

MAX_SEQUENCE = 2**31 - 1
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">8xi")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC_AND_ATTRIBUTES = struct.Struct(">Ih")
_MAX_TIMESTAMP = struct.Struct(">q")
_CRC = struct.Struct(">I")
_unpack_header = _HEADER.unpack_from
_new_tuple = tuple.__new__


class Codec(IntEnum):
    """The low three bits of the attributes; 5 to 7 are not assigned."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CorruptBatch(Exception):
    """The bytes at `position` are no whole, intact batch; all bytes before `position` are."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class BatchHeader(NamedTuple):
    """The fields in the order of the bytes. A tuple, not a dataclass: one C call fills it."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 for none; sequences wrap to 0 after 2**31 - 1."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def codec_bits(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def largest_timestamp(self) -> int:
        """The largest create time of a batch in a log, -1 for none.

        librdkafka writes 0 if all create times are -1. Appends correct that, but logs of earlier versions contain the
        0, and retention would delete these batches as batches of 1970.
        """
        latest = self.max_timestamp
        return NO_TIMESTAMP if latest == 0 and self.base_timestamp == NO_TIMESTAMP else latest

    @property
    def delete_horizon_ms(self) -> int | None:
        """KIP-534: with the flag set, the base timestamp field holds the delete horizon."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


def read_header(view: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; raises `CorruptBatch` if fewer than 61 bytes follow."""
    try:
        return _new_tuple(BatchHeader, _unpack_header(view, position))
    except struct.error:
        raise CorruptBatch(position, f"a batch header has {HEADER_SIZE} bytes, fewer remain") from None


def pack_header(header: BatchHeader) -> bytes:
    return _HEADER.pack(*header)


def read_size(view: Buffer, position: int = 0) -> int:
    """The size of the batch at `position`, from its first 12 bytes."""
    length: int = _LENGTH.unpack_from(view, position)[0]
    return length + LOG_OVERHEAD


def read_header_within(head: bytes, position: int, end: int) -> BatchHeader:
    """The header in `head`, which was read at `position` of a file whose batches end at byte `end`."""
    if len(head) < HEADER_SIZE:
        raise CorruptBatch(position, f"{len(head)} bytes remain, a batch header has {HEADER_SIZE}")
    header = read_header(head)
    if header.magic != MAGIC:
        raise CorruptBatch(position, f"expected magic {MAGIC}, found {header.magic}")
    if header.batch_length < SMALLEST_BATCH_LENGTH:
        raise CorruptBatch(position, f"length {header.batch_length} is below {SMALLEST_BATCH_LENGTH}")
    if position + header.size > end:
        raise CorruptBatch(position, f"the batch has {header.size} bytes, {end - position} remain in the file")
    return header


def compute_crc(view: memoryview, position: int, size: int) -> int:
    return crc32c(view[position + CRC_START : position + size])


def has_valid_crc(view: memoryview, position: int, header: BatchHeader) -> bool:
    return crc32c(view[position + CRC_START : position + header.batch_length + LOG_OVERHEAD]) == header.crc


def assign_offsets(view: memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the two fields that the leader assigns; both are outside the checksum."""
    _BASE_OFFSET.pack_into(view, position, base_offset)
    _LEADER_EPOCH.pack_into(view, position + 12, leader_epoch)


def set_log_append_time(view: memoryview, position: int, now_ms: int) -> BatchHeader:
    """Set the broker's time as the batch's timestamp; base timestamp and deltas stay unchanged."""
    header = read_header(view, position)
    return _set_timestamps(view, position, header, header.attributes | LOG_APPEND_TIME_FLAG, now_ms)


def set_max_timestamp(view: memoryview, position: int, max_timestamp: int) -> BatchHeader:
    """Correct the largest create time of a batch and its checksum."""
    header = read_header(view, position)
    return _set_timestamps(view, position, header, header.attributes & ~LOG_APPEND_TIME_FLAG, max_timestamp)


def _set_timestamps(
    view: memoryview, position: int, header: BatchHeader, attributes: int, max_timestamp: int
) -> BatchHeader:
    if header.attributes == attributes and header.max_timestamp == max_timestamp:
        return header
    _CRC_AND_ATTRIBUTES.pack_into(view, position + 17, 0, attributes)
    _MAX_TIMESTAMP.pack_into(view, position + 35, max_timestamp)
    crc = compute_crc(view, position, header.size)
    _CRC.pack_into(view, position + 17, crc)
    return header._replace(crc=crc, attributes=attributes, max_timestamp=max_timestamp)
