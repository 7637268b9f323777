import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkad.core.log.records.batch import HEADER_SIZE, Codec, has_valid_crc, read_header
from kafkad.core.log.records.record import (
    MalformedRecords,
    NewRecord,
    Record,
    TooManyRecords,
    build_batch,
    iter_checked,
    iter_records,
    iter_without_headers,
    recompress,
    record_timestamp,
    target_codec,
)
from kafkad.core.log.settings import LogConfig
from tests.amounts import amount
from tests.core.log import golden
from tests.core.log.many_headers import BROKEN_HEADER, batch_with_headers

nullable_bytes = st.none() | st.binary(max_size=200)
new_records = st.builds(
    NewRecord,
    timestamp=st.integers(0, 2**45),
    key=nullable_bytes,
    value=nullable_bytes,
    headers=st.lists(st.tuples(st.text(max_size=10), nullable_bytes), max_size=3).map(tuple),
    offset_delta=st.none(),
)


def decoded(batch: bytes) -> list[NewRecord]:
    header = read_header(batch)
    return [
        NewRecord(record_timestamp(header, record), record.key, record.value, tuple(record.headers))
        for record in iter_records(memoryview(batch))
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_java_wrote_are_read(codec: Codec) -> None:
    assert decoded(golden.BATCHES[codec]) == golden.RECORDS


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_a_batch_is_byte_for_byte_what_java_makes_of_the_same_records(codec: Codec) -> None:
    # The other codecs leave the encoder its freedom; Java reads ours, checked once by hand.
    assert build_batch(golden.RECORDS, codec=codec, **golden.FIELDS) == golden.BATCHES[codec]


@given(st.lists(new_records, min_size=1, max_size=20), st.sampled_from(list(Codec)))
def test_records_come_back_from_a_batch(records: list[NewRecord], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    assert decoded(batch) == records
    assert has_valid_crc(memoryview(batch), 0, header)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert (header.records_count, header.last_offset_delta) == (len(records), len(records) - 1)


def test_gaps_in_the_offsets_are_kept() -> None:
    records = [NewRecord(1, b"a", None, (), 3), NewRecord(1, b"b", None, (), 8)]
    batch = build_batch(records, last_offset_delta=10)
    assert [record.offset_delta for record in iter_records(memoryview(batch))] == [3, 8]
    assert read_header(batch).last_offset_delta == 10


def test_a_record_in_a_batch_with_append_time_has_the_time_of_the_batch() -> None:
    header = read_header(golden.APPEND_TIME)
    assert {record_timestamp(header, record) for record in iter_records(memoryview(golden.APPEND_TIME))} == {2_000_000}


def test_an_emptied_batch_has_no_records() -> None:
    assert list(iter_records(memoryview(build_batch([], last_offset_delta=4)))) == []


def with_body(body: bytes, count: int) -> memoryview:
    header = bytearray(build_batch([])[:HEADER_SIZE])
    header[8:12] = (HEADER_SIZE - 12 + len(body)).to_bytes(4, "big")
    header[57:61] = count.to_bytes(4, "big", signed=True)
    return memoryview(bytes(header) + body)


SMALLEST = bytes.fromhex("0c000000010100")


def test_the_smallest_record_has_seven_bytes() -> None:
    assert list(iter_records(with_body(SMALLEST, 1))) == [Record(0, 0, None, None, ())]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (SMALLEST, 2),
        (SMALLEST * 2, 1),
        (SMALLEST, 0),
        (SMALLEST, -1),
        (b"", 1),
        (bytes.fromhex("0d000000010100"), 1),  # negative length
        (bytes.fromhex("0a000000010100"), 1),  # length shorter than its fields
        (bytes.fromhex("0e00000001010000"), 1),  # length longer than its fields
        (bytes.fromhex("7e000000010100"), 1),  # length beyond the body
        (bytes.fromhex("0c0000006e0100"), 1),  # key beyond the record
        (bytes.fromhex("0c000000010101"), 1),  # negative number of headers
        (bytes.fromhex("0c00000001017e"), 1),  # more headers than bytes
        (bytes.fromhex("1000000001010201" + "01"), 1),  # header without a key
        (bytes.fromhex("80808080808001"), 1),  # length that does not end
    ],
)
def test_broken_records_are_malformed(body: bytes, count: int) -> None:
    with pytest.raises(MalformedRecords):
        list(iter_records(with_body(body, count)))


@given(st.binary(max_size=120), st.integers(-3, 12))
@settings(max_examples=amount("record_examples"))
def test_any_body_is_records_or_malformed(body: bytes, count: int) -> None:
    with contextlib.suppress(MalformedRecords):
        list(iter_records(with_body(body, count)))


@given(st.lists(new_records, max_size=20), st.sampled_from(list(Codec)))
def test_records_are_the_same_where_their_headers_are_not_wanted(records: list[NewRecord], codec: Codec) -> None:
    batch = memoryview(build_batch(records, codec=codec))
    bare = [record._replace(headers=()) for record in iter_records(batch)]
    assert list(iter_without_headers(batch)) == bare
    assert list(iter_checked(batch, max_bytes=len(batch) * 1000, max_headers=60)) == bare


def test_headers_that_are_not_wanted_are_not_read() -> None:
    batch = memoryview(batch_with_headers(9, BROKEN_HEADER))
    assert [record.key for record in iter_without_headers(batch)] == [b"k"]
    with pytest.raises(MalformedRecords, match="no key"):
        list(iter_checked(batch, max_bytes=1000, max_headers=9))


def test_headers_that_can_not_fit_are_malformed_where_they_are_not_read() -> None:
    with pytest.raises(MalformedRecords, match="63 headers in 0 bytes"):
        list(iter_without_headers(with_body(bytes.fromhex("0c00000001017e"), 1)))


def test_the_headers_of_all_records_together_have_a_limit() -> None:
    batch = memoryview(build_batch([NewRecord(0, None, None, [("a", b"")] * count) for count in (5, 0, 4)]))
    assert len(list(iter_checked(batch, max_bytes=1000, max_headers=9))) == 3
    assert len(list(iter_records(batch, max_headers=9))) == 3
    with pytest.raises(TooManyRecords, match="8 headers"):
        list(iter_records(batch, max_headers=8))
    with pytest.raises(TooManyRecords, match="8 headers"):
        list(iter_checked(batch, max_bytes=1000, max_headers=8))


@given(
    st.sampled_from(list(Codec)),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 140),
)
@settings(max_examples=amount("record_examples"))
def test_a_damaged_batch_is_records_or_malformed(codec: Codec, changes: list[tuple[int, int]], length: int) -> None:
    batch = bytearray(golden.BATCHES[codec])
    for at, value in changes:
        batch[at % len(batch)] = value
    with contextlib.suppress(MalformedRecords):
        list(iter_records(memoryview(batch)[:length], max_bytes=1 << 20))


def test_a_decompression_bomb_is_malformed() -> None:
    bomb = build_batch([NewRecord(0, None, bytes(10_000_000))], codec=Codec.ZSTD)
    assert len(bomb) < 2000
    with pytest.raises(MalformedRecords, match="1000000 bytes"):
        list(iter_records(memoryview(bomb), max_bytes=1_000_000))


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_recompressing_changes_the_codec_and_nothing_else(source: Codec, wanted: str) -> None:
    config = LogConfig(compression_type=wanted)
    batch = recompress(memoryview(golden.BATCHES[source]), config)
    before, after = read_header(golden.BATCHES[source]), read_header(batch)
    assert decoded(batch) == golden.RECORDS
    assert has_valid_crc(memoryview(batch), 0, after)
    assert after.codec_bits == target_codec(before, config)
    assert after[3:4] + after[6:] == before[3:4] + before[6:]


def test_the_topic_level_is_used() -> None:
    records = [NewRecord(number, None, str(number * 7919).encode()) for number in range(5000)]
    batch = memoryview(build_batch(records))
    slow = LogConfig(compression_type="zstd", compression_zstd_level=19)
    assert len(recompress(batch, slow)) < len(recompress(batch, replace(slow, compression_zstd_level=-5)))


def test_producer_means_as_it_came_and_control_batches_stay() -> None:
    header = read_header(golden.BATCHES[Codec.LZ4])
    assert target_codec(header, LogConfig(compression_type="producer")) == Codec.LZ4
    assert target_codec(read_header(golden.COMMIT), LogConfig(compression_type="zstd")) == Codec.NONE
