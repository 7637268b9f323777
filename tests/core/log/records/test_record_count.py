import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.batch import Codec, read_header
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.records.record_count import WALKED_RECORDS, check_extent


def batch_of(sizes: list[int], codec: Codec = Codec.NONE) -> bytes:
    return build_batch([NewRecord(1, None, bytes(size)) for size in sizes], codec=codec)


def is_refused(batch: bytes, count: int) -> bool:
    header = read_header(batch)._replace(records_count=count)
    try:
        check_extent(memoryview(batch), header)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_RECORD
        return True
    return False


@given(st.lists(st.sampled_from([0, 50, 60, 9000, 1_100_000]), min_size=1, max_size=WALKED_RECORDS))
def test_a_small_batch_has_exactly_the_records_that_it_announces(sizes: list[int]) -> None:
    batch = batch_of(sizes)
    assert not is_refused(batch, len(sizes))
    assert is_refused(batch, len(sizes) + 1)
    assert len(sizes) == 1 or is_refused(batch, len(sizes) - 1)


@given(st.integers(WALKED_RECORDS + 1, 200))
def test_a_large_batch_has_room_for_the_records_that_it_announces(count: int) -> None:
    batch = batch_of([0] * count)
    assert not is_refused(batch, count)
    assert is_refused(batch, count * 2)


@given(st.binary(min_size=1, max_size=40), st.integers(1, 30))
def test_any_body_is_accepted_or_refused(body: bytes, count: int) -> None:
    header = read_header(batch_of([]))
    batch = batch_of([])[:8] + (49 + len(body)).to_bytes(4, "big") + batch_of([])[12:] + body
    header = read_header(batch)._replace(records_count=count)
    try:
        check_extent(memoryview(batch), header)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_RECORD
    else:
        assert 7 * count <= len(body)


@pytest.mark.parametrize("length", ["0d", "00", "0a", "ffffffff0f"])
def test_a_length_that_no_record_has_is_refused(length: str) -> None:
    batch = bytearray(batch_of([100, 100]))
    batch[61 : 61 + len(length) // 2] = bytes.fromhex(length)
    assert is_refused(bytes(batch), 2)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_compressed_body_can_hold_the_records_that_it_announces(codec: Codec) -> None:
    """However well they are packed: a million of the smallest records."""
    batch = batch_of([0] * 1_000_000, codec)
    assert not is_refused(batch, 1_000_000)
    few = batch_of([0, 0], codec)
    assert not is_refused(few, 2)
    assert is_refused(few, 2**31 - 1)


def test_a_compressed_body_is_only_known_not_to_be_empty() -> None:
    batch = batch_of([10] * 5, Codec.LZ4)
    assert not is_refused(batch, 5)
    assert not is_refused(batch, 6)
    empty = batch[:8] + (49).to_bytes(4, "big") + batch[12:61]
    assert is_refused(empty, 5)
