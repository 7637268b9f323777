from dataclasses import replace

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.batch import Codec, has_valid_crc, read_header
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.records.record_checks import (
    READ_HEADERS,
    READ_RECORDS,
    REPORTED_RECORDS,
    InvalidRecords,
    check_records,
    has_plausible_times,
)
from kafkad.core.log.records.validation import ValidatedBatch, validate_produce
from kafkad.core.log.settings import LogConfig
from tests.core.log.many_headers import BROKEN_HEADER, batch_with_headers, peak_bytes
from tests.core.log.sealed import sealed

NOW = 1_700_000_000_000
HOUR = 3_600_000
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact", "delete"}))
PLAIN = LogConfig()
WITH_PAST = LogConfig(message_timestamp_before_max_ms=HOUR)


def validate(batch: bytes, config: LogConfig) -> ValidatedBatch:
    return validate_produce(memoryview(bytearray(batch)), config, NOW, produce_version=9)


def refused(batch: bytes, config: LogConfig) -> tuple[ErrorCode, list[int]]:
    with pytest.raises(InvalidRecords) as caught:
        validate(batch, config)
    return caught.value.code, [error.batch_index for error in caught.value.record_errors]


def at(*timestamps: int, codec: Codec = Codec.NONE) -> bytes:
    return build_batch([NewRecord(timestamp, b"k", b"v") for timestamp in timestamps], codec=codec)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_compacted_topic_names_the_records_without_a_key(codec: Codec) -> None:
    keys = [b"a", None, b"", None]
    batch = build_batch([NewRecord(NOW, key, b"v") for key in keys], codec=codec)
    assert refused(batch, COMPACTED) == (ErrorCode.INVALID_RECORD, [1, 3])
    assert validate(batch, PLAIN).header.records_count == 4


def test_a_tombstone_with_a_key_is_welcome_on_a_compacted_topic() -> None:
    assert validate(build_batch([NewRecord(NOW, b"k", None)]), COMPACTED).header.records_count == 1


def test_broken_records_are_found_where_they_must_be_read() -> None:
    batch = build_batch([NewRecord(NOW, b"k", b"v") for _ in range(40)])
    wrong = sealed(batch, records_count=39, last_offset_delta=38)
    assert validate(wrong, PLAIN).header.records_count == 39  # the price of not decoding
    with pytest.raises(KafkaError) as caught:
        validate(wrong, COMPACTED)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_records_from_the_future_are_named(codec: Codec) -> None:
    batch = at(NOW, NOW + HOUR + 1, NOW + HOUR, NOW + 2 * HOUR, codec=codec)
    assert refused(batch, PLAIN) == (ErrorCode.INVALID_TIMESTAMP, [1, 3])
    assert validate(at(NOW, NOW + HOUR, codec=codec), PLAIN).header.max_timestamp == NOW + HOUR


def test_records_from_the_past_are_named_if_the_topic_limits_the_past() -> None:
    batch = at(NOW - HOUR, NOW - HOUR - 1, NOW)
    assert refused(batch, WITH_PAST) == (ErrorCode.INVALID_TIMESTAMP, [1])
    assert validate(batch, PLAIN).header.max_timestamp == NOW


def test_records_without_a_timestamp_pass_every_limit() -> None:
    assert validate(at(-1, -1), WITH_PAST).header.max_timestamp == -1


def test_a_bad_time_outranks_a_missing_key() -> None:
    batch = build_batch([NewRecord(NOW, None, b"v"), NewRecord(NOW + 2 * HOUR, b"k", b"v")])
    assert refused(batch, COMPACTED) == (ErrorCode.INVALID_TIMESTAMP, [0, 1])


@pytest.mark.parametrize("claimed", [NOW + 5 * HOUR, NOW - 100, -1])
def test_a_largest_time_that_the_header_misstates_is_corrected(claimed: int) -> None:
    validated = validate(sealed(at(NOW - 1, NOW, NOW - 2), max_timestamp=claimed), PLAIN)
    assert validated.header.max_timestamp == NOW
    assert has_valid_crc(validated.records, 0, validated.header)


def test_a_largest_time_between_the_first_records_time_and_now_is_believed() -> None:
    batch = sealed(at(NOW - 9, NOW + 9 * HOUR), max_timestamp=NOW)
    assert validate(batch, PLAIN).header.max_timestamp == NOW  # the price of not decoding


def test_records_without_a_time_are_stored_without_one_whatever_their_header_says() -> None:
    """librdkafka looks for the largest time from 0 on."""
    validated = validate(sealed(at(-1, -1), max_timestamp=0), PLAIN)
    assert (validated.header.base_timestamp, validated.header.max_timestamp) == (-1, -1)
    assert has_valid_crc(validated.records, 0, validated.header)


@pytest.mark.parametrize(
    ("times", "claimed", "stored"),
    [
        ((-1, NOW, -1), NOW, NOW),
        ((-1, NOW), 0, NOW),
        ((-1, NOW), NOW - HOUR, NOW),
        ((-1, 0), 0, 0),
        ((-1, 5), -1, -1),  # the price of not decoding: nothing here contradicts itself
        ((-2, -7), -2, -1),
        ((-2, NOW), 0, NOW),
        ((NOW, -1), NOW, NOW),
        ((NOW, -1), 0, NOW),
        ((0, -1), 0, 0),
    ],
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_largest_time_is_believed_only_where_it_can_be_right(
    times: tuple[int, ...], claimed: int, stored: int, codec: Codec
) -> None:
    assert validate(sealed(at(*times, codec=codec), max_timestamp=claimed), PLAIN).header.max_timestamp == stored


def test_records_without_a_time_do_not_hide_one_from_the_future() -> None:
    assert refused(sealed(at(-1, NOW + HOUR + 1), max_timestamp=0), PLAIN) == (ErrorCode.INVALID_TIMESTAMP, [1])


def test_a_corrected_time_survives_recompression() -> None:
    config = replace(PLAIN, compression_type="lz4")
    validated = validate(sealed(at(NOW - 1, NOW), max_timestamp=-1), config)
    assert validated.header == read_header(validated.records)
    assert (validated.header.max_timestamp, validated.header.codec_bits) == (NOW, Codec.LZ4)


def test_a_batch_full_of_refused_records_gets_a_bounded_answer() -> None:
    batch = build_batch([NewRecord(NOW, None, None)] * (REPORTED_RECORDS + 5))
    with pytest.raises(InvalidRecords, match="1005 of 1005 records") as caught:
        validate(batch, COMPACTED)
    assert len(caught.value.record_errors) == REPORTED_RECORDS


def test_the_header_alone_settles_the_usual_case() -> None:
    header = read_header(at(NOW - 5, NOW))
    assert has_plausible_times(header, PLAIN, NOW)
    assert not has_plausible_times(header, WITH_PAST, NOW)
    assert not has_plausible_times(header, PLAIN, NOW - HOUR - 1)


def test_the_largest_time_is_that_of_the_records() -> None:
    batch = at(NOW - 5, NOW, NOW - 3)
    assert check_records(memoryview(batch), read_header(batch), PLAIN, NOW) == NOW


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("config", [COMPACTED, WITH_PAST])
def test_more_records_than_can_be_read_at_once_are_to_be_sent_as_smaller_batches(
    codec: Codec, config: LogConfig
) -> None:
    batch = build_batch([NewRecord(NOW, b"k", None)] * (READ_RECORDS + 1), codec=codec)
    with pytest.raises(KafkaError) as caught:
        validate(batch, config)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert validate(batch, PLAIN).header.records_count == READ_RECORDS + 1


@pytest.mark.parametrize("config", [COMPACTED, WITH_PAST, PLAIN])
def test_headers_are_checked_without_an_object_for_each(config: LogConfig) -> None:
    """A header of three bytes costs no more memory than a value of three bytes."""
    future = NOW + HOUR if config is WITH_PAST else NOW
    value = build_batch([NewRecord(future, b"k", bytes(300_000))], codec=Codec.GZIP)
    headers = batch_with_headers(100_000, timestamp=future, codec=Codec.GZIP)
    if config is PLAIN:
        # The batch claims a time in the future, so that its record is read.
        value, headers = (sealed(batch, max_timestamp=NOW + 2 * HOUR) for batch in (value, headers))
    plain = peak_bytes(lambda: validate(value, config))
    assert peak_bytes(lambda: validate(headers, config)) < 2 * plain


def test_broken_headers_are_found_where_records_must_be_read() -> None:
    batch = batch_with_headers(3, BROKEN_HEADER, timestamp=NOW)
    with pytest.raises(KafkaError) as caught:
        validate(batch, COMPACTED)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("config", [COMPACTED, WITH_PAST])
def test_more_headers_than_can_be_read_at_once_are_to_be_sent_in_smaller_batches(config: LogConfig) -> None:
    batch = batch_with_headers(READ_HEADERS + 1, timestamp=NOW, codec=Codec.GZIP)
    with pytest.raises(KafkaError) as caught:
        validate(batch, config)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert validate(batch, PLAIN).header.records_count == 1
