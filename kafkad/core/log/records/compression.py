"""How are the records of a batch compressed, so that every client reads them? (gzip, snappy, lz4, zstd)

Nothing decompresses beyond the limit that the caller names, so a small batch can't take the memory of the
broker. When to compress is decided elsewhere: most batches pass through as they came.
"""

import itertools
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import cramjam

from kafkad.core.log.records.batch import Codec

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""Above what any client makes of a batch of `max.message.bytes`."""
READ_BYTES = 16 * 1024 * 1024
"""Limit of decompressed bytes where the broker reads a batch while other requests wait: about 50 ms of work."""
DEFAULT_LZ4_LEVEL = 9
"""Apache Kafka takes it for lz4's fast compressor, any other level for the thorough one (Lz4BlockOutputStream)."""
DEFAULT_ZSTD_LEVEL = 3

_FAST_LZ4 = 0
_LEAST_THOROUGH_LZ4 = 3
_FIRST_GUESS = 64 * 1024
_FIRST_RATIO = 8
"""Who guesses too low decompresses twice: text in large batches takes a fifth with zstd."""
_GZIP_WINDOW = 31
_GZIP_PIECE = 4096
"""Bytes read in one call: at the end of a member zlib copies those that are left."""
# snappy-java's stream: magic, version, oldest compatible version, then blocks behind an int32 length each
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")
_PIECE = 1024 * 1024
"""Bytes compressed in one call; after each the size is checked against the limit."""
_NO_ROOM = "failed to write whole buffer"
"""The error of cramjam for a sound frame whose content does not fit the buffer."""


class CannotDecompress(Exception):
    """The bytes are not what the codec says, or grow beyond the limit."""


class GrowsTooLarge(CannotDecompress):
    """The decompressed records exceed the limit."""


class StaysTooLarge(Exception):
    """The compressed data would exceed the limit."""


def decompress(codec: int, data: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The records behind `data`, at most `max_bytes` of them; raises `CannotDecompress`."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return _gunzip(data, max_bytes)
        case Codec.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case Codec.LZ4:
            return _decompress_growing(cramjam.lz4.decompress_into, data, max_bytes)
        case Codec.ZSTD:
            return _decompress_growing(cramjam.zstd.decompress_into, data, max_bytes)
    raise CannotDecompress(f"no codec has the number {codec}")


def compress(codec: int, data: bytes, level: int | None = None, max_bytes: int | None = None) -> bytes:
    """`data` as Kafka's own clients frame it; `level` None is Kafka's default.

    Raises `StaysTooLarge`, at most one piece after the output passes `max_bytes`.
    """
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            gzip = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
            return _joined(itertools.chain(map(gzip.compress, _pieces(data)), _at_last(gzip.flush)), max_bytes)
        case Codec.SNAPPY:
            return _joined(_snappy_blocks(data), max_bytes)
        case Codec.LZ4:
            # Java's reader refuses blocks that refer to earlier ones.
            lz4_level = _FAST_LZ4 if level in (None, DEFAULT_LZ4_LEVEL) else max(level, _LEAST_THOROUGH_LZ4)
            lz4 = cramjam.lz4.Compressor(level=lz4_level, content_checksum=False, block_linked=False)
            return _joined(_compressed(lz4, data), max_bytes)
        case Codec.ZSTD:
            zstd_level = DEFAULT_ZSTD_LEVEL if level is None else level
            if len(data) <= _PIECE:
                return bytes(cramjam.zstd.compress(data, zstd_level))
            return _joined(_compressed(cramjam.zstd.Compressor(zstd_level), data), max_bytes)
    raise ValueError(f"no codec has the number {codec}")


def _pieces(data: bytes) -> Iterator[bytes]:
    if len(data) <= _PIECE:
        return iter((data,))
    return (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))


def _at_last(finish: Callable[[], bytes]) -> Iterator[bytes]:
    yield finish()


def _compressed(compressor: Any, data: bytes) -> Iterator[bytes]:
    is_first = True
    for piece in _pieces(data):
        if not is_first:
            yield bytes(compressor.flush())
        compressor.compress(piece)
        is_first = False
    yield bytes(compressor.finish())


def _joined(parts: Iterator[bytes], max_bytes: int | None) -> bytes:
    whole: list[bytes] = []
    size = 0
    for part in parts:
        whole.append(part)
        size += len(part)
        if max_bytes is not None and size > max_bytes:
            raise StaysTooLarge
    return b"".join(whole)


def _gunzip(data: memoryview, max_bytes: int) -> bytes:
    """All members of a gzip stream: the format allows several one after the other."""
    parts: list[bytes] = []
    room = max_bytes
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            piece = data[position : position + _GZIP_PIECE]
            if not piece:
                raise CannotDecompress("gzip: the stream is cut short")
            try:
                part = member.decompress(piece, room + 1)
            except zlib.error as error:
                raise CannotDecompress(f"gzip: {error}") from error
            room -= len(part)
            if room < 0:
                raise _too_large(max_bytes)
            if part:
                parts.append(part)
            position += len(piece) - len(member.unused_data)
        if position == len(data):
            return b"".join(parts)


def _decompress_growing(
    decompress_into: Callable[[memoryview, bytearray], int], data: memoryview, max_bytes: int
) -> bytes:
    """Try ever larger buffers, up to `max_bytes`: a frame need not state the size of its content, and may lie."""
    size = min(max_bytes, max(_FIRST_GUESS, _FIRST_RATIO * len(data)))
    while True:
        out = bytearray(size)
        try:
            written = decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise CannotDecompress(str(error)) from error
            if size >= max_bytes:
                raise _too_large(max_bytes) from error
            size = min(max_bytes, 4 * size)
            continue
        return bytes(memoryview(out)[:written])


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    """Java frames snappy in blocks, librdkafka and others write one bare block."""
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, max_bytes, max_bytes)
    parts: list[bytes] = []
    room = max_bytes
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _INT32.size:
            raise CannotDecompress("snappy: a block length is cut short")
        length: int = _INT32.unpack_from(data, position)[0]
        position += _INT32.size
        if length < 0 or length > len(data) - position:
            raise CannotDecompress(f"snappy: a block has {length} bytes, {len(data) - position} are left")
        part = _decompress_snappy_block(data[position : position + length], room, max_bytes)
        room -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise _too_large(max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CannotDecompress(str(error)) from error


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    view = memoryview(data)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        yield _INT32.pack(len(block)) + block


def _too_large(max_bytes: int) -> GrowsTooLarge:
    return GrowsTooLarge(f"the records take more than the {max_bytes} bytes that are read")
