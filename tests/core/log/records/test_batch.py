import pytest

from kafkad.core.log.records.batch import (
    HEADER_SIZE,
    Codec,
    CorruptBatch,
    assign_offsets,
    has_valid_crc,
    pack_header,
    read_header,
    set_log_append_time,
    set_max_timestamp,
)
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.records.record import NewRecord, build_batch
from tests.core.log import golden

PLAIN = golden.BATCHES[Codec.NONE]


def read_at(content: bytes, reads: list[int] | None = None):  # type: ignore[no-untyped-def]
    def read(size: int, position: int) -> bytes:
        if reads is not None:
            reads.append(size)
        return content[position : position + size]

    return read


def test_a_header_that_java_wrote_has_the_fields_that_java_gave_it() -> None:
    header = read_header(golden.BATCHES[Codec.ZSTD])
    assert (header.base_offset, header.last_offset, header.next_offset) == (5, 7, 8)
    assert (header.partition_leader_epoch, header.magic, header.codec_bits) == (9, 2, Codec.ZSTD)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1234567)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 41)
    assert (header.records_count, header.last_sequence) == (3, 43)
    assert header.size == len(golden.BATCHES[Codec.ZSTD])
    assert not header.is_control and not header.is_transactional and not header.is_log_append_time


def test_a_header_is_packed_as_it_was_read() -> None:
    assert pack_header(read_header(PLAIN)) == PLAIN[:HEADER_SIZE]


def test_a_transaction_marker_is_control_and_transactional() -> None:
    header = read_header(golden.COMMIT)
    assert header.is_control and header.is_transactional
    assert header.last_sequence == -1


def test_a_delete_horizon_lies_in_the_base_timestamp() -> None:
    header = read_header(build_batch([NewRecord(7, b"k", None)], delete_horizon_ms=99))
    assert header.delete_horizon_ms == 99
    assert read_header(PLAIN).delete_horizon_ms is None


def test_sequences_wrap_after_the_largest_int32() -> None:
    header = read_header(PLAIN)._replace(base_sequence=2**31 - 2, last_offset_delta=3)
    assert header.last_sequence == 1


def test_fewer_than_61_bytes_are_no_header() -> None:
    with pytest.raises(CorruptBatch) as caught:
        read_header(PLAIN[:60])
    assert caught.value.position == 0


@pytest.mark.parametrize("batch", [*golden.BATCHES.values(), golden.COMMIT, golden.ABORT])
def test_the_checksum_that_java_computed_holds(batch: bytes) -> None:
    assert has_valid_crc(memoryview(batch), 0, read_header(batch))


def test_assigning_offsets_leaves_the_checksum_valid() -> None:
    content = memoryview(bytearray(b"xx" + PLAIN))
    assign_offsets(content, 2, 2**40, 12)
    header = read_header(content, 2)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 12)
    assert has_valid_crc(content, 2, header)


def test_stamping_the_append_time_gives_the_bytes_that_java_gives() -> None:
    content = memoryview(bytearray(PLAIN))
    header = set_log_append_time(content, 0, 2_000_000)
    assert content == golden.APPEND_TIME
    assert header == read_header(content)


def test_correcting_the_largest_timestamp_renews_the_checksum_and_the_type() -> None:
    content = memoryview(bytearray(golden.APPEND_TIME))
    header = set_max_timestamp(content, 0, 1234567)
    assert content == PLAIN
    assert header == read_header(content)


def test_walking_a_file_reads_small_batches_many_at_a_time() -> None:
    content = PLAIN + golden.BATCHES[Codec.GZIP] + golden.COMMIT
    reads: list[int] = []
    walked = list(walk_batches(read_at(content, reads), 0, len(content)))
    assert [position for position, _ in walked] == [0, len(PLAIN), len(content) - len(golden.COMMIT)]
    assert [header.base_offset for _, header in walked] == [5, 5, 12]
    assert reads == [len(content)]


def test_walking_a_file_reads_of_large_batches_the_headers_only() -> None:
    large = build_batch([NewRecord(0, None, bytes(10_000))])
    reads: list[int] = []
    assert len(list(walk_batches(read_at(large * 3, reads), 0, 3 * len(large)))) == 3
    assert reads[1:] == [HEADER_SIZE, HEADER_SIZE]


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (PLAIN[:-1], "has 115 bytes, 114 remain"),
        (PLAIN[:40], "40 bytes remain"),
        (bytes(100), "magic 2, found 0"),
        (PLAIN[:8] + (48).to_bytes(4, "big") + PLAIN[12:], "length 48"),
        (PLAIN[:8] + b"\xff\xff\xff\xff" + PLAIN[12:], "length -1"),
    ],
)
def test_walking_stops_where_no_batch_can_be(tail: bytes, reason: str) -> None:
    content = PLAIN + tail
    walked = []
    with pytest.raises(CorruptBatch, match=reason) as caught:
        for position, _ in walk_batches(read_at(content), 0, len(content)):
            walked.append(position)
    assert walked == [0]
    assert caught.value.position == len(PLAIN)
