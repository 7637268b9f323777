import random
from dataclasses import replace

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.batch import CONTROL_FLAG, LOG_APPEND_TIME_FLAG, Codec, has_valid_crc, read_header
from kafkad.core.log.records.compression import READ_BYTES
from kafkad.core.log.records.record import NewRecord, build_batch, iter_records
from kafkad.core.log.records.record_checks import InvalidRecords
from kafkad.core.log.records.validation import ValidatedBatch, validate_follower, validate_produce
from kafkad.core.log.settings import LogConfig
from tests.core.log.sealed import sealed

NOW = 1_700_000_000_000
RECORDS = [NewRecord(NOW - 5, b"a", b"1"), NewRecord(NOW, b"b", b"2"), NewRecord(NOW - 1, b"c", b"3")]
CONFIG = LogConfig()
BATCH = build_batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0)


def validate(content: bytes, config: LogConfig = CONFIG, produce_version: int = 9) -> ValidatedBatch:
    return validate_produce(memoryview(bytearray(content)), config, now_ms=NOW, produce_version=produce_version)


def refusal(content: bytes, config: LogConfig = CONFIG, produce_version: int = 9) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        validate(content, config, produce_version)
    return caught.value.code


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_of_each_codec_passes_untouched(codec: Codec) -> None:
    content = build_batch(RECORDS, codec=codec)
    records = memoryview(bytearray(content))
    validated = validate_produce(records, CONFIG, NOW, produce_version=9)
    assert validated.records is records
    assert records == content
    assert validated.header == read_header(content)


def of_length(length: int) -> bytes:
    return BATCH[:8] + length.to_bytes(4, "big", signed=True) + BATCH[12:]


def test_no_batch_at_all_is_an_invalid_record() -> None:
    assert refusal(b"") is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("size", [1, 12, 16, 17, 60, 61, len(BATCH) - 1])
def test_a_batch_that_is_cut_short_is_no_batch(size: int) -> None:
    assert refusal(BATCH[:size]) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_an_impossible_length_is_corrupt(length: int) -> None:
    assert refusal(of_length(length)) is ErrorCode.CORRUPT_MESSAGE


def test_a_length_beyond_what_was_sent_is_no_batch() -> None:
    assert refusal(of_length(2**31 - 1)) is ErrorCode.INVALID_RECORD


def test_bytes_after_the_batch_are_corrupt() -> None:
    assert refusal(BATCH + b"\0") is ErrorCode.CORRUPT_MESSAGE
    assert refusal(BATCH + BATCH[:-1]) is ErrorCode.CORRUPT_MESSAGE


def test_two_batches_are_an_invalid_record() -> None:
    assert refusal(BATCH + BATCH) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_RECORD),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (255, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_only_magic_2_is_taken(magic: int, code: ErrorCode) -> None:
    content = bytearray(BATCH)
    content[16] = magic
    assert refusal(bytes(content)) is code


def test_an_old_message_shorter_than_a_batch_header_is_named_as_such() -> None:
    message_of_magic_1 = bytes(8) + (22).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(17)
    assert refusal(message_of_magic_1) is ErrorCode.INVALID_RECORD


def test_a_base_offset_is_the_leaders_to_assign() -> None:
    assert refusal(build_batch(RECORDS, base_offset=1)) is ErrorCode.INVALID_RECORD


def test_the_largest_allowed_batch_passes_and_one_byte_more_does_not() -> None:
    exact = replace(CONFIG, max_message_bytes=len(BATCH))
    assert validate(BATCH, exact).header.size == len(BATCH)
    too_small = replace(CONFIG, max_message_bytes=len(BATCH) - 1)
    assert refusal(BATCH, too_small) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(BATCH, replace(CONFIG, segment_bytes=len(BATCH) - 1)) is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("at", [*range(8, 12), *range(16, len(BATCH))])
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_anywhere_in_what_is_stored_is_refused(at: int, bit: int) -> None:
    content = bytearray(BATCH)
    content[at] ^= 1 << bit
    assert refusal(bytes(content)) in (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"records_count": 2, "last_offset_delta": 1},
        {"records_count": 4, "last_offset_delta": 3},
        {"records_count": 4},
        {"last_offset_delta": 3},
        {"records_count": 0, "last_offset_delta": -1},
        {"records_count": -1, "last_offset_delta": -2},
        {"records_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"attributes": CONTROL_FLAG},
        {"base_sequence": -1},
        {"producer_epoch": -1},
    ],
)
def test_a_header_that_contradicts_itself_or_the_records_is_refused(fields: dict[str, int]) -> None:
    assert refusal(sealed(BATCH, **fields)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_that_announces_no_records_is_refused(codec: Codec) -> None:
    assert refusal(build_batch([], codec=codec, last_offset_delta=-1)) is ErrorCode.INVALID_RECORD


def test_without_a_producer_id_sequence_and_epoch_mean_nothing() -> None:
    content = sealed(BATCH, producer_id=-1, producer_epoch=-1, base_sequence=-1)
    assert validate(content).header.producer_id == -1


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unassigned_codec_is_unsupported(codec: int) -> None:
    assert refusal(sealed(BATCH, attributes=codec)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_zstd_needs_produce_version_7() -> None:
    content = build_batch(RECORDS, codec=Codec.ZSTD)
    assert refusal(content, produce_version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate(content, produce_version=7).header.codec_bits == Codec.ZSTD


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_client_must_not_claim_the_append_time(timestamp_type: str) -> None:
    config = replace(CONFIG, message_timestamp_type=timestamp_type)
    with pytest.raises(InvalidRecords) as caught:
        validate(sealed(BATCH, attributes=LOG_APPEND_TIME_FLAG), config)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == [0]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_log_append_time_is_stamped_in_place(codec: Codec) -> None:
    records = memoryview(bytearray(build_batch(RECORDS, codec=codec)))
    config = replace(CONFIG, message_timestamp_type="LogAppendTime")
    validated = validate_produce(records, config, NOW + 77, produce_version=9)
    assert validated.records is records
    assert validated.header == read_header(records)
    assert validated.header.is_log_append_time and validated.header.max_timestamp == NOW + 77
    assert has_valid_crc(records, 0, validated.header)


def test_log_append_time_does_not_care_for_the_time_that_was_sent() -> None:
    config = replace(CONFIG, message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=1)
    assert validate(build_batch([NewRecord(1, None, b"old")]), config).header.max_timestamp == NOW


def test_a_refused_batch_is_left_as_it_came() -> None:
    config = replace(CONFIG, message_timestamp_type="LogAppendTime", cleanup_policy=frozenset({"compact"}))
    content = build_batch([NewRecord(NOW, None, b"keyless")])
    records = memoryview(bytearray(content))
    with pytest.raises(InvalidRecords):
        validate_produce(records, config, NOW, produce_version=9)
    assert records == content


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_the_topics_codec_replaces_the_producers(codec: Codec) -> None:
    config = replace(CONFIG, compression_type="zstd")
    validated = validate(build_batch(RECORDS, codec=codec), config)
    assert validated.header == read_header(validated.records)
    assert validated.header.codec_bits == Codec.ZSTD
    assert [record.key for record in iter_records(validated.records)] == [b"a", b"b", b"c"]


def test_recompression_and_append_time_go_together() -> None:
    config = replace(CONFIG, compression_type="gzip", message_timestamp_type="LogAppendTime")
    validated = validate(BATCH, config)
    assert (validated.header.codec_bits, validated.header.max_timestamp) == (Codec.GZIP, NOW)
    assert has_valid_crc(validated.records, 0, validated.header)


def test_a_batch_that_grows_too_large_by_decompression_is_refused() -> None:
    content = build_batch([NewRecord(NOW, None, bytes(100_000))], codec=Codec.ZSTD)
    config = replace(CONFIG, compression_type="uncompressed", max_message_bytes=10_000)
    assert refusal(content, config) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize(
    "config",
    [
        replace(CONFIG, compression_type="uncompressed", max_message_bytes=READ_BYTES),
        replace(CONFIG, cleanup_policy=frozenset({"compact"})),
    ],
)
def test_what_decompresses_to_very_much_is_to_be_sent_as_smaller_batches(codec: Codec, config: LogConfig) -> None:
    """A few kilobytes may become a gigabyte, and the worker has other partitions."""
    most = max(READ_BYTES, 2 * config.max_message_bytes)
    content = build_batch([NewRecord(NOW, b"k", bytes(most))], codec=codec)
    assert len(content) <= config.max_message_bytes
    assert refusal(content, config) is ErrorCode.MESSAGE_TOO_LARGE


def test_recompression_ends_when_the_batch_is_too_large_already() -> None:
    """Random bytes, eight times the same: zstd sees that, gzip's window is too small."""
    value = random.Random(8).randbytes(500_000) * 8
    content = build_batch([NewRecord(NOW, b"k", value)], codec=Codec.ZSTD)
    assert len(content) < 600_000
    assert refusal(content, replace(CONFIG, compression_type="gzip")) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_body_that_can_not_be_decompressed_is_refused_when_it_must_be() -> None:
    content = sealed(BATCH, attributes=int(Codec.LZ4))
    assert refusal(content, replace(CONFIG, compression_type="zstd")) is ErrorCode.INVALID_RECORD


def follower_batches() -> list[bytes]:
    return [
        build_batch(RECORDS, base_offset=10, leader_epoch=4),
        build_batch(RECORDS, base_offset=20, leader_epoch=4),
        build_batch(RECORDS, base_offset=23, leader_epoch=5),
    ]


def follow(content: bytes, end: int = 10, epoch: int = 5) -> list[int]:
    headers = validate_follower(memoryview(content), log_end_offset=end, leader_epoch=epoch)
    return [header.base_offset for header in headers]


def test_a_follower_takes_all_whole_batches() -> None:
    content = b"".join(follower_batches())
    assert follow(content) == [10, 20, 23]
    assert follow(content[:-1]) == [10, 20]
    assert follow(content + content[:40]) == [10, 20, 23]


def test_a_follower_stops_at_a_newer_epoch_than_its_leaders() -> None:
    assert follow(b"".join(follower_batches()), epoch=4) == [10, 20]


def test_a_follower_refuses_damage() -> None:
    content = bytearray(b"".join(follower_batches()))
    content[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        follow(bytes(content))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("head", [bytes(61), b"\xff" * 61])
def test_a_follower_refuses_what_is_no_batch(head: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        follow(head)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_follower_refuses_offsets_that_it_has_or_that_go_back() -> None:
    first, second, _ = follower_batches()
    for content, end in ((first, 11), (second + first, 10)):
        with pytest.raises(KafkaError) as caught:
            follow(content, end)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
