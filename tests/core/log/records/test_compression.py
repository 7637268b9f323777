import contextlib
import random
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor

import cramjam
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkad.core.log.records import compression
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.compression import (
    CompressedTooLarge,
    DecompressedTooLarge,
    DecompressionFailed,
    compress,
    decompress,
)
from tests.amounts import amount

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"the quick brown fox " * 10_000


@given(st.sampled_from(list(Codec)), st.binary(max_size=5000), st.integers(1, 30))
def test_what_was_compressed_comes_back(codec: Codec, data: bytes, times: int) -> None:
    assert decompress(codec, memoryview(compress(codec, data * times))) == data * times


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_limit_itself_is_allowed_and_one_byte_more_is_not(codec: Codec) -> None:
    packed = memoryview(compress(codec, TEXT))
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(DecompressionFailed, match=str(len(TEXT) - 1)):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_content_far_larger_than_the_batch_comes_back(codec: Codec) -> None:
    data = bytes(20_000_000)
    assert decompress(codec, memoryview(compress(codec, data))) == data


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_stream_that_is_cut_short_is_refused(codec: Codec, cut: int) -> None:
    # The end mark of an lz4 frame and a gzip trailer count as content here: nothing may be missing.
    with pytest.raises(DecompressionFailed):
        decompress(codec, memoryview(compress(codec, TEXT))[:-cut])


@given(st.sampled_from(COMPRESSING), st.binary(max_size=300))
@settings(max_examples=amount("record_examples"))
def test_any_bytes_decompress_or_are_refused(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(DecompressionFailed):
        decompress(codec, memoryview(data), 1 << 20)


@given(st.sampled_from(COMPRESSING), st.integers(0, 10_000), st.integers(0, 7))
@settings(max_examples=amount("record_examples"))
def test_a_flipped_bit_never_escapes_as_another_exception(codec: Codec, at: int, bit: int) -> None:
    packed = bytearray(compress(codec, TEXT))
    packed[at % len(packed)] ^= 1 << bit
    with contextlib.suppress(DecompressionFailed):
        decompress(codec, memoryview(packed), 1 << 20)


def test_snappy_is_read_framed_as_java_writes_it_and_bare_as_librdkafka_does() -> None:
    assert compress(Codec.SNAPPY, TEXT).startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    bare = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, memoryview(bare)) == TEXT


def test_the_snappy_limit_holds_over_all_blocks_together() -> None:
    packed = memoryview(compress(Codec.SNAPPY, TEXT))
    with pytest.raises(DecompressionFailed):
        decompress(Codec.SNAPPY, packed, 100_000)


def test_a_snappy_block_that_claims_4_gb_takes_no_memory() -> None:
    with pytest.raises(DecompressionFailed, match="exceed the limit"):
        decompress(Codec.SNAPPY, memoryview(b"\xff\xff\xff\xff\x0f" + bytes(20)))


def test_gzip_members_one_after_the_other_are_one_stream() -> None:
    packed = compress(Codec.GZIP, b"one ") + compress(Codec.GZIP, b"two")
    assert decompress(Codec.GZIP, memoryview(packed)) == b"one two"


def test_no_gzip_member_costs_a_copy_of_all_that_follow_it() -> None:
    data = memoryview(compress(Codec.GZIP, b"") * 20_000)
    tracemalloc.start()
    try:
        assert decompress(Codec.GZIP, data) == b""
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < len(data) / 2


def test_lz4_blocks_do_not_depend_on_each_other_because_java_refuses_that() -> None:
    assert compress(Codec.LZ4, TEXT)[4] & 0x20


def test_levels_change_the_size() -> None:
    data = b"".join(b"offset %d of topic-%d\n" % (number * number, number % 7) for number in range(20_000))
    assert len(compress(Codec.GZIP, data, 9)) < len(compress(Codec.GZIP, data, 1))
    assert len(compress(Codec.ZSTD, data, 19)) < len(compress(Codec.ZSTD, data, -5))
    assert len(compress(Codec.LZ4, data, 12)) < len(compress(Codec.LZ4, data, 1))


def test_the_default_of_lz4_is_its_fast_compressor_as_in_apache_kafka() -> None:
    data = b"".join(b"offset %d of topic-%d\n" % (number * number, number % 7) for number in range(20_000))
    assert compress(Codec.LZ4, data) == compress(Codec.LZ4, data, 9)
    assert len(compress(Codec.LZ4, data, 9)) > len(compress(Codec.LZ4, data, 1)) > len(compress(Codec.LZ4, data, 10))


def test_gzip_uses_the_level_that_zlib_takes_as_its_default() -> None:
    assert decompress(Codec.GZIP, memoryview(compress(Codec.GZIP, TEXT, -1))) == TEXT
    assert zlib.decompress(compress(Codec.GZIP, TEXT), 31) == TEXT


def test_an_unassigned_codec_is_refused() -> None:
    with pytest.raises(DecompressionFailed):
        decompress(5, memoryview(b""))
    with pytest.raises(ValueError):
        compress(7, b"")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_more_than_a_piece_is_compressed_as_one_stream(codec: Codec) -> None:
    data = TEXT * 20
    assert len(data) > 3_000_000
    assert decompress(codec, memoryview(compress(codec, data, max_bytes=len(data)))) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_compressing_is_given_up_when_it_is_too_large(codec: Codec) -> None:
    data = random.Random(3).randbytes(3_000_000)
    with pytest.raises(CompressedTooLarge):
        compress(codec, data, max_bytes=1_000_000)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_a_corrupt_frame_is_not_taken_for_a_large_one(codec: Codec) -> None:
    with pytest.raises(DecompressionFailed) as caught:
        decompress(codec, memoryview(b"no frame at all, and no magic number"))
    assert not isinstance(caught.value, DecompressedTooLarge)


def test_an_lz4_frame_has_the_flags_that_apache_kafka_writes() -> None:
    # Version 1, independent blocks without checksums; blocks of 64 KB.
    assert compress(Codec.LZ4, b"text")[:6] == b"\x04\x22\x4d\x18\x60\x40"


def test_what_lies_behind_an_lz4_frame_is_left() -> None:
    assert decompress(Codec.LZ4, memoryview(compress(Codec.LZ4, TEXT) + b"more")) == TEXT


@pytest.mark.parametrize("size", [0, 10, 128 * 1024, 1_000_000])
def test_zstd_is_read_with_and_without_the_size_of_its_content(size: int) -> None:
    # librdkafka states it, Java does not.
    data = random.Random(5).randbytes(size // 2) * 2
    for is_stated in (True, False):
        zstd = zstandard.ZstdCompressor(write_content_size=is_stated, write_checksum=is_stated)
        packed = memoryview(zstd.compress(data))
        assert decompress(Codec.ZSTD, packed) == data
        assert decompress(Codec.ZSTD, packed, max(len(data), 1)) == data
        if size:
            with pytest.raises(DecompressedTooLarge):
                decompress(Codec.ZSTD, packed, len(data) - 1)


def test_zstd_frames_one_after_the_other_are_one_stream() -> None:
    unsized = zstandard.ZstdCompressor(write_content_size=False)
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00none"
    packed = compress(Codec.ZSTD, b"one ") + unsized.compress(b"two ") + skipped + unsized.compress(TEXT)
    assert decompress(Codec.ZSTD, memoryview(packed)) == b"one two " + TEXT


def test_a_zstd_frame_that_claims_more_than_it_holds_is_refused() -> None:
    packed = bytearray(zstandard.ZstdCompressor().compress(bytes(1000)))
    assert zstandard.frame_content_size(bytes(packed)) == 1000
    packed[5:7] = (60_000).to_bytes(2, "little")
    with pytest.raises(DecompressionFailed):
        decompress(Codec.ZSTD, memoryview(packed))


def test_a_zstd_frame_that_says_it_is_empty_is_looked_at() -> None:
    # The second one's checksum is wrong, the first one's blocks are.
    for frame in ("28b52ffd240005000017e9d851", "28b52ffd2400010000e4e95665"):
        with pytest.raises(DecompressionFailed):
            decompress(Codec.ZSTD, memoryview(bytes.fromhex(frame)))


def test_the_window_that_a_zstd_frame_asks_for_is_given_back() -> None:
    # 128 MB, of which 1,023 RLE blocks fill all.
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    frame = b"\x28\xb5\x2f\xfd\x00\x88" + block * 1023 + (1).to_bytes(3, "little")
    assert len(decompress(Codec.ZSTD, memoryview(frame))) == 1023 * 128 * 1024
    assert all(idle.memory_size() < 8 << 20 for idle in compression._idle_decompressors)


def test_a_zstd_frame_of_small_blocks_is_read() -> None:
    block = (1 << 3).to_bytes(3, "little") + b"x"
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + block * 10_000 + (1).to_bytes(3, "little")
    assert decompress(Codec.ZSTD, memoryview(frame)) == b"x" * 10_000


def test_what_is_no_lz4_frame_is_refused_also_where_lz4_would_skip_it() -> None:
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00none"
    for data in (skipped, skipped + compress(Codec.LZ4, TEXT)):
        with pytest.raises(DecompressionFailed):
            decompress(Codec.LZ4, memoryview(data))


def test_a_zstd_stream_of_rle_blocks_takes_no_more_than_the_limit() -> None:
    # Four bytes for 128 KB each, in a frame that states no size.
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    end = (1).to_bytes(3, "little")
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + block * 4000 + end
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLarge):
            decompress(Codec.ZSTD, memoryview(frame), 1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert decompress(Codec.ZSTD, memoryview(b"\x28\xb5\x2f\xfd\x00\x58" + block * 2 + end)) == b"x" * 262_144


@pytest.mark.parametrize("codec", COMPRESSING)
def test_threads_compress_and_decompress_at_once(codec: Codec) -> None:
    rows = [random.Random(seed).randbytes(20_000) * 3 for seed in range(8)]
    with ThreadPoolExecutor(8) as threads:
        packed = list(threads.map(lambda data: compress(codec, data), rows * 20))
        assert list(threads.map(lambda data: decompress(codec, memoryview(data)), packed)) == rows * 20
