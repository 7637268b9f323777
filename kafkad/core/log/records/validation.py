"""May the records that a client sent for one partition be appended?

Constant work per batch: header, checksum and the first few records are checked. All records are read only if the topic
or an implausible timestamp requires it (docs/decisions/003-no-record-decode.md). `producers` checks the sequence. The
buffer is changed only after all checks.
"""

from typing import Final, NamedTuple

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.batch import (
    HEADER_SIZE,
    MAGIC,
    SMALLEST_BATCH_LENGTH,
    BatchHeader,
    Codec,
    has_valid_crc,
    read_header,
    read_size,
    set_log_append_time,
    set_max_timestamp,
)
from kafkad.core.log.records.compression import CompressedTooLarge
from kafkad.core.log.records.record import MalformedRecords, TooManyRecords, recompress, target_codec
from kafkad.core.log.records.record_checks import (
    InvalidRecords,
    RecordError,
    check_records,
    has_plausible_times,
    read_bytes,
)
from kafkad.core.log.records.record_count import check_extent, invalid_record
from kafkad.core.log.settings import LogConfig

_MAGIC_AT: Final = 16
_FIRST_ZSTD_VERSION: Final = 7


class ValidatedBatch(NamedTuple):
    """A batch to append, without offsets. A tuple for speed: each produced batch makes one."""

    records: "memoryview"  # In quotes for mypyc, which does not find this class when it makes a NamedTuple.
    header: BatchHeader


def validate_produce(records: memoryview, config: LogConfig, now_ms: int, *, produce_version: int) -> ValidatedBatch:
    """The one batch to append; raises `KafkaError` for a rejected one.

    The result is `records` itself unless `compression.type` requires another codec. `records` must be writable: with
    LogAppendTime the batch gets the time; a wrong largest create time in the header is corrected if the records were
    read anyway.
    """
    header = _sole_header(records)
    check_size(header.size, config)
    if not has_valid_crc(records, 0, header):
        raise _corrupt(f"the batch does not match its checksum {header.crc}")
    _check_codec(header, produce_version)
    _check_header(header)
    check_extent(records, header)
    if header.is_log_append_time:
        # Apache Kafka accepts this if the topic has CreateTime, and clears the flag; no client sends it.
        message = "a producer must not set the timestamp type LogAppendTime"
        raise InvalidRecords(ErrorCode.INVALID_TIMESTAMP, message, [RecordError(0, message)])
    is_log_append_time = config.message_timestamp_type == "LogAppendTime"
    latest = header.max_timestamp
    if config.is_compacted or not (is_log_append_time or has_plausible_times(header, config, now_ms)):
        latest = check_records(records, header, config, now_ms)
    batch = records if target_codec(header, config) == header.codec_bits else _recompress(records, config)
    if is_log_append_time:
        header = set_log_append_time(batch, 0, now_ms)
    elif latest != header.max_timestamp:
        header = set_max_timestamp(batch, 0, latest)
    elif batch is not records:
        header = read_header(batch)
    return ValidatedBatch(batch, header)


def validate_follower(records: memoryview, *, log_end_offset: int, leader_epoch: int) -> list[BatchHeader]:
    """The headers of the whole batches from a leader, in order from byte 0; raises `KafkaError`.

    The leader has validated the batches, so only damage and wrong order are rejected. An incomplete batch at the end,
    and batches from a leader epoch that is newer than the follower's (KAFKA-18723), are left for the next fetch.
    """
    headers: list[BatchHeader] = []
    position, expected = 0, log_end_offset
    while len(records) - position >= HEADER_SIZE:
        header = read_header(records, position)
        if header.magic != MAGIC or header.batch_length < SMALLEST_BATCH_LENGTH:
            raise _corrupt(f"no record batch at byte {position} of the leader's response")
        if header.size > len(records) - position or header.partition_leader_epoch > leader_epoch:
            break
        if not has_valid_crc(records, position, header):
            raise _corrupt(f"the batch at offset {header.base_offset} does not match its checksum")
        if header.base_offset < expected or header.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"expected offset {expected} or later, the leader sent {header.base_offset} to {header.last_offset}",
            )
        headers.append(header)
        expected = header.next_offset
        position += header.size
    return headers


def _sole_header(records: memoryview) -> BatchHeader:
    """The header of `records`, which must be exactly one batch of magic 2.

    A truncated batch is INVALID_RECORD, as in Apache Kafka: clients would retry after CORRUPT_MESSAGE for ever.
    """
    length = len(records)
    if length == 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "expected one record batch for the partition, found none")
    if length <= _MAGIC_AT:
        raise invalid_record(f"{length} bytes are too few for a record batch")
    magic = records[_MAGIC_AT]
    if magic < MAGIC:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"expected record batches of magic 2, found magic {magic}")
    if magic != MAGIC:
        raise _corrupt(f"expected a batch of magic 2, found magic {magic}")
    if length < HEADER_SIZE:
        raise invalid_record(f"{length} bytes are too few for a record batch")
    header = read_header(records)
    size = header.size
    if header.batch_length < SMALLEST_BATCH_LENGTH:
        raise _corrupt(f"the batch claims {size} bytes, which is less than its header")
    if size > length:
        raise invalid_record(f"the batch claims {size} bytes, {length} were sent")
    if size < length:
        _reject_trailing_bytes(records, size)
    if header.base_offset != 0:
        raise invalid_record(f"the base offset of a produced batch must be 0, found {header.base_offset}")
    return header


def _reject_trailing_bytes(records: memoryview, size: int) -> None:
    trailing = len(records) - size
    if trailing >= HEADER_SIZE and HEADER_SIZE <= read_size(records, size) <= trailing:
        raise invalid_record("expected exactly one record batch for the partition, found more")
    raise _corrupt(f"{trailing} bytes follow the batch")


def check_size(size: int, config: LogConfig) -> None:
    """Check the size of a whole batch against the limits of the topic."""
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size} bytes, segment.bytes is {config.segment_bytes}",
        )


def _recompress(records: memoryview, config: LogConfig) -> memoryview:
    try:
        batch = memoryview(bytearray(recompress(records, config, max_bytes=read_bytes(config))))
    except TooManyRecords as too_many:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(too_many)) from too_many
    except CompressedTooLarge as too_large:
        limit = config.max_message_bytes
        message = f"compressed with {config.compression_type} the batch exceeds max.message.bytes, which is {limit}"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, message) from too_large
    except MalformedRecords as malformed:
        raise invalid_record(str(malformed)) from malformed
    check_size(len(batch), config)
    return batch


def _check_codec(header: BatchHeader, produce_version: int) -> None:
    codec = header.codec_bits
    if codec > Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")
    if codec == Codec.ZSTD and produce_version < _FIRST_ZSTD_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd requires Produce version {_FIRST_ZSTD_VERSION}, the request has {produce_version}",
        )


def _check_header(header: BatchHeader) -> None:
    count, delta = header.records_count, header.last_offset_delta
    if count <= 0 or count != delta + 1:
        raise invalid_record(f"the batch claims {count} records and offsets 0 to {delta}")
    if header.is_control:
        raise invalid_record("clients must not write control batches")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise invalid_record(
            f"producer {header.producer_id} sent sequence {header.base_sequence} "
            f"and epoch {header.producer_epoch}; neither may be negative"
        )


def _corrupt(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, reason)
