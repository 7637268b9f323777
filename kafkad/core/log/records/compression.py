"""How are the records of a batch compressed and decompressed? (gzip, snappy, lz4, zstd)

Decompression stops at the caller's limit, so a small batch can't exhaust the broker's memory. Whether to compress is
decided elsewhere: most batches are stored as received.
"""

import itertools
import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam
import lz4.frame
import zstandard

from kafkad.core.log.records.batch import Codec

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""More than any client compresses into a batch of `max.message.bytes`."""
READ_BYTES = 16 * 1024 * 1024
"""Limit of decompressed bytes when other requests wait meanwhile: about 50 ms of work."""
DEFAULT_LZ4_LEVEL = 9
"""Apache Kafka uses lz4's fast compressor for this level, the HC compressor for others (Lz4BlockOutputStream)."""
DEFAULT_ZSTD_LEVEL = 3

_FAST_LZ4 = 0
_MIN_LZ4_HC = 3
_MIN_FIRST_SIZE = 64 * 1024
_FIRST_RATIO = 8
"""A buffer that is too small decompresses twice: zstd compresses text in large batches to a fifth."""
_GZIP_WINDOW = 31
_GZIP_PIECE = 4096
"""Input bytes of one call: at the end of a member zlib copies the unused input."""
# snappy-java's stream: magic, version, oldest compatible version, then blocks, each after an int32 length
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")
_PIECE = 1024 * 1024
"""Bytes compressed in one call; after each the size is checked against the limit."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_CHECKSUM_FLAG = 0x04
_ZSTD_BLOCK = 128 * 1024
"""Maximum size of a block (RFC 8878, 3.1.1.2.4)."""
_ZSTD_RLE = 1
_MAX_COUNTED_BLOCKS = 4096
"""Frames with more blocks are decompressed without a count, which would cost as much as the decompression."""
_MAX_IDLE_CONTEXT = 4 * 1024 * 1024
"""Bytes: a frame may require a window of 128 MB, which its context would keep."""
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_NO_SPACE = "did not decompress full frame"
_NO_SPACE_FOR_FRAMES = "failed to write whole buffer"
"""The error texts of zstandard and cramjam for a buffer that is too small."""
_idle_decompressors: list[zstandard.ZstdDecompressor] = []
_idle_compressors: list[zstandard.ZstdCompressor] = []
"""Contexts of the default level, each for one thread at a time. A new one costs as much as 16 KB of data."""


class DecompressionFailed(Exception):
    """The data is invalid for the codec, or exceeds the limit when decompressed."""


class DecompressedTooLarge(DecompressionFailed):
    """The decompressed records exceed the limit."""


class CompressedTooLarge(Exception):
    """The compressed data would exceed the limit."""


def decompress(codec: int, data: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The decompressed `data`, at most `max_bytes`; raises `DecompressionFailed`."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return _gunzip(data, max_bytes)
        case Codec.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case Codec.LZ4:
            return _decompress_lz4(data, max_bytes)
        case Codec.ZSTD:
            return _decompress_zstd(data, max_bytes)
    raise DecompressionFailed(f"unknown compression codec {codec}")


def compress(codec: int, data: bytes, level: int | None = None, max_bytes: int | None = None) -> bytes:
    """`data` framed as by Kafka's own clients; `level` None is Kafka's default.

    Raises `CompressedTooLarge` when the output exceeds `max_bytes`, checked after each piece.
    """
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            gzip = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
            return _join(itertools.chain(map(gzip.compress, _pieces(data)), _deferred(gzip.flush)), max_bytes)
        case Codec.SNAPPY:
            return _join(_snappy_blocks(data), max_bytes)
        case Codec.LZ4:
            return _join(_lz4_frame(data, level), max_bytes)
        case Codec.ZSTD:
            if len(data) <= _PIECE and level in (None, DEFAULT_ZSTD_LEVEL):
                return _compress_zstd(data)
            zstd = zstandard.ZstdCompressor(DEFAULT_ZSTD_LEVEL if level is None else level).compressobj()
            return _join(itertools.chain(map(zstd.compress, _pieces(data)), _deferred(zstd.flush)), max_bytes)
    raise ValueError(f"unknown compression codec {codec}")


def _pieces(data: bytes) -> Iterator[bytes]:
    if len(data) <= _PIECE:
        return iter((data,))
    return (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))


def _deferred(finish: Callable[[], bytes]) -> Iterator[bytes]:
    yield finish()


def _lz4_frame(data: bytes, level: int | None) -> Iterator[bytes]:
    """With independent blocks: Java's reader rejects linked ones."""
    lz4_level = _FAST_LZ4 if level in (None, DEFAULT_LZ4_LEVEL) else max(level, _MIN_LZ4_HC)
    if len(data) <= _PIECE:
        yield lz4.frame.compress(data, lz4_level, block_linked=False, store_size=False)
        return
    frame = lz4.frame.LZ4FrameCompressor(compression_level=lz4_level, block_linked=False)
    yield frame.begin()
    for piece in _pieces(data):
        yield frame.compress(piece)
    yield frame.flush()


def _compress_zstd(data: bytes) -> bytes:
    try:
        zstd = _idle_compressors.pop()
    except IndexError:
        zstd = zstandard.ZstdCompressor(DEFAULT_ZSTD_LEVEL)
    packed = zstd.compress(data)
    _idle_compressors.append(zstd)
    return packed


def _join(chunks: Iterator[bytes], max_bytes: int | None) -> bytes:
    joined: list[bytes] = []
    size = 0
    for chunk in chunks:
        joined.append(chunk)
        size += len(chunk)
        if max_bytes is not None and size > max_bytes:
            raise CompressedTooLarge
    return b"".join(joined)


def _gunzip(data: memoryview, max_bytes: int) -> bytes:
    """All members of a gzip stream, which may have several."""
    chunks: list[bytes] = []
    remaining = max_bytes
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            piece = data[position : position + _GZIP_PIECE]
            if not piece:
                raise DecompressionFailed("gzip: the stream is truncated")
            try:
                chunk = member.decompress(piece, remaining + 1)
            except zlib.error as error:
                raise DecompressionFailed(f"gzip: {error}") from error
            remaining -= len(chunk)
            if remaining < 0:
                raise _too_large(max_bytes)
            if chunk:
                chunks.append(chunk)
            position += len(piece) - len(member.unused_data)
        if position == len(data):
            return b"".join(chunks)


def _decompress_lz4(data: memoryview, max_bytes: int) -> bytes:
    """The first frame; bytes after it are ignored, as in Apache Kafka."""
    if data[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        raise DecompressionFailed("lz4: expected a frame, found other bytes")
    context = lz4.frame.create_decompression_context()
    buffer_size = max(_MIN_FIRST_SIZE, _FIRST_RATIO * len(data))
    chunks: list[bytes] = []
    remaining = max_bytes
    position = 0
    while True:
        # One byte above the limit, to distinguish a frame that ends at the limit from a longer one.
        size = min(buffer_size, remaining + 1)
        try:
            chunk, read, is_end = lz4.frame.decompress_chunk(context, data[position:], max_length=size)
        except RuntimeError as error:
            raise DecompressionFailed(f"lz4: {error}") from error
        remaining -= len(chunk)
        if remaining < 0:
            raise _too_large(max_bytes)
        chunks.append(chunk)
        position += read
        if is_end:
            return b"".join(chunks)
        if len(chunk) < size:
            raise DecompressionFailed("lz4: the frame is truncated")


def _decompress_zstd(data: memoryview, max_bytes: int) -> bytes:
    bound = _frame_bound(data)
    if bound is None:
        return _decompress_zstd_frames(data, max_bytes)
    try:
        zstd = _idle_decompressors.pop()
    except IndexError:
        zstd = zstandard.ZstdDecompressor()
    try:
        return _decompress_zstd_frame(zstd, data, bound, max_bytes)
    except zstandard.ZstdError as error:
        raise DecompressionFailed(f"zstd: {error}") from error
    finally:
        if zstd.memory_size() <= _MAX_IDLE_CONTEXT:
            _idle_decompressors.append(zstd)


def _decompress_zstd_frame(zstd: zstandard.ZstdDecompressor, data: memoryview, bound: int, max_bytes: int) -> bytes:
    """Retry with a larger buffer if the frame does not contain its content size; Java's frames do not."""
    if zstandard.frame_content_size(data) > max_bytes:
        raise _too_large(max_bytes)
    size = min(bound, max_bytes, max(_MIN_FIRST_SIZE, _FIRST_RATIO * len(data)))
    while True:
        try:
            return zstd.decompress(data, max_output_size=size)
        except zstandard.ZstdError as error:
            if _NO_SPACE not in str(error) or size == bound:
                raise
        if size == max_bytes:
            raise _too_large(max_bytes)
        size = min(bound, max_bytes)


def _frame_bound(data: memoryview) -> int | None:
    """An upper bound of the content size of a frame (RFC 8878).

    None unless `data` is exactly one whole frame, without skippable ones. Also None for a frame of content size 0,
    whose blocks the library would not check.
    """
    if data[: len(_ZSTD_MAGIC)] != _ZSTD_MAGIC:
        return None
    try:
        position: int = zstandard.frame_header_size(data)
        if zstandard.frame_content_size(data) == 0:
            return None
    except zstandard.ZstdError:
        return None
    trailer = 4 if data[len(_ZSTD_MAGIC)] & _ZSTD_CHECKSUM_FLAG else 0
    bound = 0
    is_last = False
    while not is_last:
        header = data[position : position + 3]
        if len(header) < 3 or bound == _MAX_COUNTED_BLOCKS * _ZSTD_BLOCK:
            return None
        fields = header[0] | header[1] << 8 | header[2] << 16
        is_last = bool(fields & 1)
        position += 3 + (1 if fields >> 1 & 3 == _ZSTD_RLE else fields >> 3)
        bound += _ZSTD_BLOCK
    return bound if position + trailer == len(data) else None


def _decompress_zstd_frames(data: memoryview, max_bytes: int) -> bytes:
    """Decompress a stream of several frames, with larger buffers until the content fits."""
    size = min(max_bytes, max(_MIN_FIRST_SIZE, _FIRST_RATIO * len(data)))
    while True:
        out = bytearray(size)
        try:
            written = cramjam.zstd.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if _NO_SPACE_FOR_FRAMES not in str(error):
                raise DecompressionFailed(f"zstd: {error}") from error
            if size >= max_bytes:
                raise _too_large(max_bytes) from error
            size = min(max_bytes, 4 * size)
            continue
        return bytes(memoryview(out)[:written])


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    """Java frames snappy blocks; librdkafka and others write one bare block."""
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, max_bytes, max_bytes)
    chunks: list[bytes] = []
    remaining = max_bytes
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _INT32.size:
            raise DecompressionFailed("snappy: a block length is truncated")
        length: int = _INT32.unpack_from(data, position)[0]
        position += _INT32.size
        if length < 0 or length > len(data) - position:
            raise DecompressionFailed(f"snappy: a block has {length} bytes, {len(data) - position} remain")
        chunk = _decompress_snappy_block(data[position : position + length], remaining, max_bytes)
        remaining -= len(chunk)
        chunks.append(chunk)
        position += length
    return b"".join(chunks)


def _decompress_snappy_block(block: memoryview, max_block_bytes: int, max_bytes: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > max_block_bytes:
            raise _too_large(max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecompressionFailed(str(error)) from error


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    view = memoryview(data)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        yield _INT32.pack(len(block)) + block


def _too_large(max_bytes: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"the decompressed records exceed the limit of {max_bytes} bytes")
