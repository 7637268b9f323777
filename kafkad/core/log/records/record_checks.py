"""Which records of a batch are rejected?

Compacted topics require keys, and create times may have limits. Then every record is read, and the response contains
each rejected record (KIP-467). `validation` checks all other batches by their header.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.batch import BatchHeader
from kafkad.core.log.records.compression import MAX_DECOMPRESSED_BYTES, READ_BYTES
from kafkad.core.log.records.record import MalformedRecords, TooManyRecords, iter_checked
from kafkad.core.log.settings import LogConfig
from kafkad.core.types import NO_TIMESTAMP

REPORTED_RECORDS: Final = 1000
"""A batch may have 100,000 invalid records; the response must not be larger than the batch."""
READ_RECORDS: Final = 50_000
"""Limit of records if all must be read: about 100 ms in which other requests wait."""
READ_HEADERS: Final = 1_000_000
"""The same limit for the headers of all these records together."""
_NO_LIMIT: Final = 2**63 - 1


class RecordError(NamedTuple):
    """A rejected record of the batch, with the reason."""

    batch_index: int
    message: str


class InvalidRecords(KafkaError):
    """A batch rejected because of some of its records."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)


def has_plausible_times(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether the header alone shows that every create time is in range, and what the largest is.

    The oldest time is not in the header, so a limit for the past requires the records. So does a first record without
    a time: librdkafka computes the largest time from 0, and the header then has 0.
    """
    earliest, latest = header.base_timestamp, header.max_timestamp
    return (
        config.message_timestamp_before_max_ms == _NO_LIMIT
        and (0 <= earliest <= latest or earliest == latest == NO_TIMESTAMP)
        and latest - now_ms <= config.message_timestamp_after_max_ms
    )


def check_records(records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> int:
    """Read every record; return the largest create time, or raise `InvalidRecords` with the rejected ones.

    A batch with too many records is MESSAGE_TOO_LARGE: producers then split it.
    """
    if header.records_count > READ_RECORDS:
        message = f"the batch has {header.records_count} records, the limit is {READ_RECORDS}"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, message)
    checks_time = config.message_timestamp_type != "LogAppendTime"
    errors: list[RecordError] = []
    code = ErrorCode.INVALID_RECORD
    latest = NO_TIMESTAMP
    for index, (timestamp, has_key) in enumerate(_timestamps_and_keys(records, header, read_bytes(config))):
        latest = max(latest, timestamp)
        if config.is_compacted and not has_key:
            errors.append(RecordError(index, "a compacted topic does not accept records without a key"))
        elif checks_time and not _is_in_range(timestamp, config, now_ms):
            code = ErrorCode.INVALID_TIMESTAMP
            errors.append(RecordError(index, _out_of_range(timestamp, config, now_ms)))
    if errors:
        message = f"{len(errors)} of {header.records_count} records are rejected: {errors[0].message}"
        raise InvalidRecords(code, message, errors[:REPORTED_RECORDS])
    return latest


def read_bytes(config: LogConfig) -> int:
    """The limit of decompressed bytes of a produced batch; a large `max.message.bytes` raises it."""
    return min(MAX_DECOMPRESSED_BYTES, max(READ_BYTES, 2 * config.max_message_bytes))


def _timestamps_and_keys(records: memoryview, header: BatchHeader, max_bytes: int) -> Iterator[tuple[int, bool]]:
    try:
        for record in iter_checked(records, max_bytes=max_bytes, max_headers=READ_HEADERS):
            yield header.base_timestamp + record.timestamp_delta, record.key is not None
    except TooManyRecords as too_many:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(too_many)) from too_many
    except MalformedRecords as malformed:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(malformed)) from malformed


def _is_in_range(timestamp: int, config: LogConfig, now_ms: int) -> bool:
    if timestamp == NO_TIMESTAMP:
        return True
    age = now_ms - timestamp
    return -config.message_timestamp_after_max_ms <= age <= config.message_timestamp_before_max_ms


def _out_of_range(timestamp: int, config: LogConfig, now_ms: int) -> str:
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    return f"the timestamp {timestamp} is not between {earliest} and {latest}"
